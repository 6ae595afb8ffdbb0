"""Installs the wheel without extras into a fresh environment outside of the checkout, and calls its commands there."""

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate_operator.cli.main import COMMANDS
from tools.pins import needed, parse
from tools.release.errors import ReleaseError
from tools.release.source import Source

SIZE_MAX = 40_000_000
"""Maximum size of an installation without extras in bytes of its file system's blocks, without bytecode."""
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Installed:
    """A checked installation: its size in bytes, its packages without `sluicegate`, and the number of calls."""

    size: int
    packages: int
    calls: int


def check_installed(source: Source, wheel: Path) -> Installed:
    """Install the wheel, and call its commands. Raises ReleaseError with the call and its output."""
    with tempfile.TemporaryDirectory(prefix="sluicegate-installed-") as scratch:
        place = Path(scratch) / "venv"
        venv.create(place, with_pip=False)
        pins = needed(
            parse((source.root / "constraints.txt").read_text(encoding="utf-8")),
            source.pyproject["project"]["dependencies"],
        )
        asked = Path(scratch) / "pins.txt"
        asked.write_text("".join(f"{pin.requirement()}\n" for pin in pins), encoding="utf-8")
        _pip(place, "--require-hashes", "--requirement", str(asked))
        _pip(place, str(wheel.resolve()))
        (site,) = (place / "lib").glob("python*/site-packages")
        size = sum(path.stat().st_blocks * 512 for path in site.rglob("*") if path.is_file())
        if size > SIZE_MAX:
            raise ReleaseError(
                f"{wheel.name} and its packages need {size / 1e6:.0f} MB, and may need {SIZE_MAX / 1e6:.0f}"
            )
        return Installed(size, len(pins), _call_commands(source, place / "bin" / "sluicegate", Path(scratch)))


def _call_commands(source: Source, program: Path, folder: Path) -> int:
    manifest = str(source.root / "examples" / "quickstart")
    helps = [["--help"], *([name, "--help"] for name in COMMANDS), ["audit", "build", "--help"]]
    fine = [*helps, ["validate", "-f", manifest], ["plan", "-f", manifest, "--against", manifest], ["crds"]]
    for call in fine:
        done = _call(program, call, folder)
        if done.returncode != 0:
            raise ReleaseError(f"sluicegate {' '.join(call)} ended with {done.returncode}: {done.stderr[-1000:]}")
    lacking: dict[tuple[str, ...], str] = {("up", "-f", manifest): "broker", ("broker", "--config", "x"): "broker"}
    lacking |= {("audit", "query", "SELECT 1", "--target", "."): "landing", ("audit", "build", "x"): "audit"}
    lacking |= {("status", "-n", "shop"): "kubernetes"}
    for words, extra in lacking.items():
        done = _call(program, words, folder)
        if done.returncode != 2 or not done.stderr.endswith(f"pip install 'sluicegate[{extra}]'\n"):
            raise ReleaseError(f"sluicegate {' '.join(words)} does not name the extra {extra}: {done.stderr[-1000:]}")
    return len(fine) + len(lacking)


def _call(program: Path, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    command = [str(program), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )


def _pip(place: Path, *what: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "-q", "--no-compile"]
    command += ["--disable-pip-version-check", "--no-deps", *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"pip could not install {what[-1]}: {done.stderr.strip()[-1000:]}")
