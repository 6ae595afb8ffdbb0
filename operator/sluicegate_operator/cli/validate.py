"""`sluicegate validate`: what the API server would refuse, without one."""

import sys

import typer

from sluicegate_operator.api import load_manifests
from sluicegate_operator.cli.options import FilesOption


def validate(files: FilesOption) -> None:
    """Exit code 1 when anything is wrong, with file, field and what to do."""
    manifests = load_manifests(files)
    for error in manifests.errors:
        print(error, file=sys.stderr)
    if manifests.errors:
        raise typer.Exit(1)
    if not manifests.resources:
        print(f"no resources in {', '.join(map(str, files))}", file=sys.stderr)
        raise typer.Exit(1)
    for resource in manifests.resources:
        print(f"{resource.kind} {resource.name}: valid")
