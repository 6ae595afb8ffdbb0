"""The commands of README's section Install, which the suite follows word by word."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from e2e.operator_process import REPOSITORY

SECTION = "\n## Install\n"
_FENCE = "```\n"
_TIMEOUT_S = 400.0


def install_commands(readme: str) -> list[str]:
    """One for each line of the section's first block of commands. Raises ValueError where it has none."""
    _, _, section = readme.partition(SECTION)
    block = section.partition("\n## ")[0].split(_FENCE)[1:2]
    commands = [line for text in block for line in text.splitlines() if line]
    if not commands:
        raise ValueError(f"README.md has no block of commands below {SECTION.strip()!r}")
    return commands


def followed(readme: Path) -> Iterator[str]:
    """Each command once it has ended well, in the repository, by a shell with helm and kubectl on its path.

    Raises CalledProcessError with what the command printed, TimeoutExpired.
    """
    for command in install_commands(readme.read_text(encoding="utf-8")):
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=True,
        )
        yield command
