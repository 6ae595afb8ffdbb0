"""Options that several commands share, so that their names and help texts are the same."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sluicegate_operator.cli.completion import kube_contexts, local_clusters


class Output(StrEnum):
    """The output formats of a command."""

    TABLE = "table"
    JSON = "json"


DATA_DIR = Path(".sluicegate")

DataDirOption = Annotated[
    Path,
    typer.Option("--data-dir", envvar="SLUICEGATE_DATA_DIR", help="Folder for the brokers' files and state."),
]

FilesOption = Annotated[
    list[Path],
    typer.Option("-f", "--filename", help="A manifest or a folder of manifests; may be repeated."),
]

OptionalFilesOption = Annotated[
    list[Path] | None,
    typer.Option("-f", "--filename", help="A manifest or a folder of manifests; may be repeated."),
]

NamespaceOption = Annotated[
    str | None,
    typer.Option("-n", "--namespace", help="Ask in Kubernetes, in this namespace."),
]

KubeContextOption = Annotated[
    str | None,
    typer.Option(
        "--context", help="Ask in Kubernetes, with this context of the kubeconfig.", autocompletion=kube_contexts
    ),
]

KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="Ask in Kubernetes, with this kubeconfig file; by default KUBECONFIG."),
]

ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", help="Name of the cluster, if there are several.", autocompletion=local_clusters),
]
