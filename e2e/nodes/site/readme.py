"""Commands of pages, which the suite runs unchanged: README's section Install and examples/README.md."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2e.world.operator_process import REPOSITORY
from tests.support.pages.blocks import blocks, section

INSTALL = "Install"
_INSTALLS = "helm install "
_TIMEOUT_S = 700.0


def install_commands(readme: str) -> list[str]:
    """Return the block of the section Install that begins with helm. Raises ValueError if that is missing."""
    for commands in blocks(section(readme, INSTALL)):
        if commands and commands[0].startswith(_INSTALLS):
            return commands
    raise ValueError(f"README.md has no block of commands with {_INSTALLS.strip()!r} below {INSTALL}")


def example_commands(page: str, example: str) -> list[str]:
    """Return the tested commands of one section of a page of examples. Raises ValueError if it has none."""
    commands = [line for block in blocks(section(page, example), "sh") for line in block]
    if not commands:
        raise ValueError(f"the page has no commands for {example}")
    return commands


def followed(readme: Path) -> Iterator[str]:
    """Run the commands of Install, and yield each one that succeeded."""
    for command in install_commands(readme.read_text(encoding="utf-8")):
        run(command)
        yield command


def run(command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the repository by a shell with helm, kubectl and sluicegate on its path; return its output.

    Raises CalledProcessError with the output, TimeoutExpired.
    """
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=REPOSITORY,
        env={**os.environ, **own, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    ).stdout
