"""Runs Go for set-up steps: builds of programs and downloads of modules, with progress and one time limit.

Go's own build cache continues an interrupted build where it ended.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.obtain.cache import ObtainError
from tests.support.obtain.long_command import run_long


def build(
    target: str,
    what: str,
    arguments: Sequence[str],
    *,
    without_go: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run `go build` or `go install` with these arguments, the first of which is the verb.

    `without_go` is the advice for a machine without Go. Raises ObtainError.
    """
    verb, *rest = arguments
    command = [_go(what, without_go), verb, "-v", *rest]
    environment = {**os.environ, "CGO_ENABLED": "0", **(env or {})}
    run_long(target, f"the build of {what} with Go", command, count=Counted(), cwd=cwd, env=environment)


def download(target: str, module: str, *, scratch: Path, env: Mapping[str, str]) -> str:
    """Download a module, given as PATH@VERSION, and return what `go mod download -json` prints. Raises ObtainError."""
    command = [_go(module, "install Go"), "mod", "download", "-json", module]
    return run_long(
        target, f"the download of {module}", command, count=Counted(), cwd=scratch, env={**os.environ, **env}
    )


def _go(what: str, advice: str) -> str:
    found = shutil.which("go")
    if found is None:
        raise ObtainError(f"{what} comes by Go, and Go is not installed: {advice}")
    return found


class Counted:
    """Counts the modules that Go downloads and the packages that it compiles: `go build -v` prints a line for each."""

    def __init__(self) -> None:
        self._downloaded = self._compiled = 0

    def __call__(self, line: str) -> str:
        self._downloaded += line.startswith("go: downloading ")
        self._compiled += not line.startswith(("go: ", "#", "\t"))
        return f"{self._downloaded} modules downloaded, {self._compiled} packages compiled"
