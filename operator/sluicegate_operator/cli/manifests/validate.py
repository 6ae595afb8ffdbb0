"""`sluicegate validate`: finds, without an API server, what it would refuse, and numbers that contradict each other."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from sluicegate_operator.api import load_manifests
from sluicegate_operator.api.manifests import ManifestError, Manifests
from sluicegate_operator.cli.options import FilesOption


class ValidateOutput(StrEnum):
    """The output formats of `validate`: for users, for programs, and for pull requests at GitHub.

    GitHub shows each problem at its file.
    """

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def validate(
    files: FilesOption,
    output: Annotated[ValidateOutput, typer.Option(help="Output format.")] = ValidateOutput.TEXT,
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Skip objects of other API groups than sluicegate.dev.")
    ] = False,
) -> None:
    """Check manifests as the API server would. Print each problem with file, field and what to do.

    The exit code is 1 when there is a problem.
    """
    manifests = load_manifests(files, skip_others=skip_others)
    problems = list(manifests.errors)
    if not problems and not manifests.resources:
        problems.append(ManifestError(", ".join(map(str, files)), None, "", "contains no resources"))
    if output is ValidateOutput.JSON:
        print(json.dumps(_document(manifests, problems)))
    elif problems:
        for problem in problems:
            if output is ValidateOutput.GITHUB:
                print(_annotation(problem))
            else:
                print(problem, file=sys.stderr)
    else:
        for resource in manifests.resources:
            print(f"{resource.kind} {resource.name}: valid")
    if problems:
        raise typer.Exit(1)


def _document(manifests: Manifests, problems: Sequence[ManifestError]) -> dict[str, object]:
    """Return the result as JSON. `document` counts from 1 in the file, as in sentences; null means the whole file."""
    return {
        "valid": not problems,
        "problems": [
            {
                "file": problem.file,
                "document": None if problem.document is None else problem.document + 1,
                "field": problem.field,
                "message": problem.sentence,
            }
            for problem in problems
        ],
        "resources": [
            {"kind": resource.kind, "namespace": resource.namespace, "name": resource.name}
            for resource in manifests.resources
        ],
    }


def _annotation(problem: ManifestError) -> str:
    """Return a workflow command of GitHub Actions."""
    file, title = _property(problem.file), _property(problem.field or "manifest")
    return f"::error file={file},title={title}::{_escaped(str(problem))}"


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
