"""Has etcd, kube-apiserver, kube-controller-manager and kubectl ready in one folder: `python -m e2e.cluster.obtain`.

In this order: the folder that SLUICEGATE_KUBE_BINARIES names; the cache; a download (when its address is given); a
build with Go. Runs that need the same cache wait for each other, and a folder appears in the cache complete or not at
all.
"""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.binaries import (
    BINARIES_VARIABLE,
    NAMES,
    ObtainError,
    binaries_folder,
    cache_folder,
    missing_in,
)
from e2e.cluster.download import download_binary
from e2e.cluster.go_build import build_binary


def obtain() -> Path:
    if os.environ.get(BINARIES_VARIABLE):
        return binaries_folder()
    folder = cache_folder()
    if not missing_in(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_name(f"{folder.name}.lock")):
        if missing_in(folder):
            _fill(folder)
    return folder


def _fill(folder: Path) -> None:
    prefix = f"{folder.name}.part-"
    for left_by_a_killed_run in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left_by_a_killed_run)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as scratch:
        fresh = Path(scratch) / "bin"
        fresh.mkdir()
        for name in NAMES:
            if name not in missing_in(folder):
                shutil.copy2(folder / name, fresh / name)
            elif not download_binary(name, fresh, _show):
                build_binary(name, fresh, _show)
        if folder.exists():
            folder.rename(Path(scratch) / "incomplete")
        fresh.rename(folder)


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """The kernel lets the lock go when its holder ends, however it ends."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _show(f"another run is filling {lock.with_suffix('')}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _show(line: str) -> None:
    sys.stderr.write(f"[kubernetes] {line}\n")
    sys.stderr.flush()


def main() -> int:
    try:
        folder = obtain()
    except ObtainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
