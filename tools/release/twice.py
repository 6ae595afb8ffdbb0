"""Makes a release twice, in two checkouts at different paths, and compares all bytes."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.obtain.cache import cache_root, show
from tools.release.errors import ReleaseError
from tools.release.source import clone
from tools.release.sums import first_difference

_FOLDERS = ("one", "a-longer/path/of/the/other")


def check_twice(root: Path, arguments: Sequence[str], *, fresh_layers: bool) -> None:
    """Run `tools.release` with the arguments in two clones. Raises ReleaseError if a byte differs.

    With `fresh_layers`, the second run builds all layers of images itself, and takes none from the cache.
    """
    with tempfile.TemporaryDirectory(prefix="sluicegate-twice-") as scratch:
        made = []
        for number, name in enumerate(_FOLDERS, 1):
            tree = Path(scratch) / name
            tree.parent.mkdir(parents=True, exist_ok=True)
            clone(root, tree)
            environment = dict(os.environ, PYTHONPATH=f"{tree}:{tree / 'operator'}")
            if number == 2 and fresh_layers:
                environment |= {"XDG_CACHE_HOME": f"{scratch}/cache", "PIP_CACHE_DIR": str(cache_root().parent / "pip")}
            show("release", f"run {number}, in {tree} ...")
            out = tree / "dist"
            done = subprocess.run(
                [sys.executable, "-m", "tools.release", "--out", str(out), *arguments],
                cwd=tree,
                env=environment,
                umask=0o077 if number == 2 else 0o022,
                check=False,
            )
            if done.returncode != 0:
                raise ReleaseError(f"run {number} of two ended with {done.returncode}")
            made.append(out)
        difference = first_difference(*made)
        if difference is not None:
            raise ReleaseError(f"the two releases differ: {difference}")
        count = sum(1 for path in made[0].rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in made[0].rglob("*") if path.is_file())
        show("release", f"{count} files, {size / 1e6:.0f} MB, are the same byte for byte")
        shutil.rmtree(made[1])
