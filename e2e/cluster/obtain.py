"""Has etcd, kube-apiserver, kube-controller-manager and kubectl ready in one folder: `python -m e2e.cluster.obtain`.

In this order: the folder that SLUICEGATE_KUBE_BINARIES names; the cache; a download (when its address is given); a
build with Go.
"""

import os
import shutil
import sys
from functools import partial
from pathlib import Path

from e2e.cluster.binaries import BINARIES_VARIABLE, NAMES, binaries_folder, cache_folder, missing_in
from e2e.cluster.download import download_binary
from e2e.cluster.go_build import build_binary
from tests.support.cache import main, obtained, show


def obtain() -> Path:
    if os.environ.get(BINARIES_VARIABLE):
        return binaries_folder()
    return obtained(cache_folder(), lambda folder: not missing_in(folder), _fill)


def _fill(fresh: Path) -> None:
    folder, progress = cache_folder(), partial(show, "kubernetes")
    fresh.mkdir()
    for name in NAMES:
        if name not in missing_in(folder):
            shutil.copy2(folder / name, fresh / name)
        elif not download_binary(name, fresh, progress):
            build_binary(name, fresh, progress)


if __name__ == "__main__":
    sys.exit(main(obtain))
