"""Names that shells complete: those in files of this machine.

A completion asks no cluster: it must be there at once, and must change nothing.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer
from yaml import YAMLError

from sluicegate_operator.api.yaml_documents import documents_of
from sluicegate_operator.fleet.local.local_data import DataDirError, read_state


def local_clusters(context: typer.Context, incomplete: str) -> list[str]:
    """Return the clusters of `sluicegate up` that begin so."""
    try:
        found = read_state(Path(context.params.get("data_dir") or ".sluicegate"))["clusters"]
    except (DataDirError, OSError, ValueError, LookupError):
        return []
    return sorted(name for name in found if name.startswith(incomplete))


def kube_contexts(context: typer.Context, incomplete: str) -> list[str]:
    """Return the contexts of the kubeconfig files that begin so."""
    given = context.params.get("kubeconfig")
    return sorted({name for name in _contexts_of(given, os.environ) if name.startswith(incomplete)})


def _contexts_of(given: str | None, environment: Mapping[str, str]) -> Iterator[str]:
    default = str(Path.home() / ".kube" / "config")
    for file in (given or environment.get("KUBECONFIG") or default).split(os.pathsep):
        try:
            documents = list(documents_of(Path(file).read_text(encoding="utf-8")))
            yield from (str(one["name"]) for document in documents for one in document.get("contexts") or ())
        except (OSError, ValueError, YAMLError, LookupError, TypeError, AttributeError):
            continue
