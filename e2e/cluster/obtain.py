"""Provides etcd, kube-apiserver, kube-controller-manager and kubectl in one folder: `python -m e2e.cluster.obtain`.

Sources in this order: the folder that SLUICEGATE_KUBE_BINARIES names; the cache; a download (if its address is given);
a build with Go.
"""

import os
import shutil
import sys
from functools import partial
from pathlib import Path

from e2e.cluster.binaries import (
    BINARIES_VARIABLE,
    NAMES,
    NODE_NAMES,
    binaries_folder,
    cache_folder,
    missing_in,
    node_cache_folder,
)
from e2e.cluster.download import download_binary
from e2e.cluster.go_build import build_binary
from tests.support.obtain.cache import main, obtained, show


def obtain() -> Path:
    if os.environ.get(BINARIES_VARIABLE):
        return binaries_folder()
    return _obtain(cache_folder(), NAMES)


def obtain_for_nodes() -> Path:
    """Return a separate folder with the programs of kind's nodes, other than those of the control plane."""
    return _obtain(node_cache_folder(), NODE_NAMES)


def _obtain(folder: Path, names: tuple[str, ...]) -> Path:
    def is_complete(place: Path) -> bool:
        return not missing_in(place, names)

    return obtained(folder, is_complete, partial(_fill, folder, names))


def _fill(folder: Path, names: tuple[str, ...], fresh: Path) -> None:
    progress = partial(show, "kubernetes")
    fresh.mkdir()
    missing = missing_in(folder, names)
    for name in names:
        if name not in missing:
            shutil.copy2(folder / name, fresh / name)
        elif not download_binary(name, fresh, progress):
            build_binary(name, fresh)


if __name__ == "__main__":
    sys.exit(main(obtain))
