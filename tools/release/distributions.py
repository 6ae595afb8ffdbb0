"""Wheels and source distributions of `sluicegate` and `sluicegate-consumer`, built by hatchling without an index."""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.release.errors import ReleaseError
from tools.release.source import Source

CONSUMER = "sluicegate-consumer"
CONSUMER_PACKAGES = ("sluicegate_consumer", "kafka_bytes")
_TIMEOUT_S = 600.0


def build_distributions(source: Source, folder: Path) -> list[Path]:
    """Write the wheels and source distributions into `folder`, and return their paths. Raises ReleaseError."""
    before = set(folder.iterdir())
    _build(source, source.root, folder)
    with tempfile.TemporaryDirectory(prefix="sluicegate-consumer-") as scratch:
        tree = Path(scratch) / CONSUMER
        copy_consumer(source.root, tree)
        _build(source, tree, folder)
    return sorted(set(folder.iterdir()) - before)


def copy_consumer(root: Path, tree: Path) -> None:
    """Make a source tree of the consumer alone: its package, and the modules of `kafka_bytes` that it imports."""
    tree.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(root / "packaging" / "consumer" / name, tree / name)
    shutil.copy(root / "LICENSE", tree / "LICENSE")
    for file in [*consumer_modules(root), root / "sluicegate_consumer" / "py.typed"]:
        place = tree / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


def consumer_modules(root: Path) -> list[Path]:
    """Return the files of the consumer's package and of every module that it reaches in CONSUMER_PACKAGES."""
    waiting = [*(root / CONSUMER_PACKAGES[0]).rglob("*.py")]
    found: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported(root, file)
    return sorted(found)


def _imported(root: Path, file: Path) -> Iterator[Path]:
    """Yield the files of the modules that a file imports, and of the packages that contain them."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] in CONSUMER_PACKAGES:
                yield from _files_of(root, parts)


def _files_of(root: Path, parts: list[str]) -> Iterator[Path]:
    for length in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:length])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                yield file


def _build(source: Source, tree: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder.resolve())]
    done = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, **source.environment},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"hatchling could not build {tree.name}: {done.stderr.strip()[-1000:]}")
