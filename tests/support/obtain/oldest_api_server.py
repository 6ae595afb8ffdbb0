"""The verdict of the oldest supported API server on CRDs.

`python -m tests.support.obtain.oldest_api_server` builds a program once. The program uses Kubernetes' own modules in
that version: its library of CEL functions and its cost estimates of rules differ from those of newer versions.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.support.obtain.cache import main
from tests.support.obtain.go_program import of_folder

_TIMEOUT_S = 60
SOURCE = Path(__file__).with_name("oldest_api_server_go")
PROGRAM = of_folder(
    SOURCE,
    "oldest-api-server",
    "the part of the oldest supported API server that checks CRDs",
    target="oldest-api-server",
    variable="SLUICEGATE_OLDEST_API_SERVER",
    cached_as="oldest-api-server",
)


def lacking_functions(names: Iterable[str]) -> list[str]:
    """The names that are not CEL functions there."""
    return _run("functions", *sorted(names)).splitlines()


def refusals(crds: Iterable[Path]) -> list[str]:
    """Why that API server would refuse these files, one sentence each; empty if it accepts all of them."""
    found = map(json.loads, _run("check", *map(str, crds)).splitlines())
    return [f"{one['file']} {one['field']}: {one['error']}" for one in found]


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [PROGRAM.program(), *arguments], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(PROGRAM.obtain))
