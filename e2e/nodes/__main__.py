"""`python -m e2e.nodes short|full`: the scenarios on real kubelets, from nothing to a cluster that is gone again.

Makes the image, Helm and a kind cluster of one node (short) or three (full), and runs the tests inside its network.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from e2e.kind.cluster import Cluster
from e2e.nodes import levels
from e2e.nodes.previous import previous
from tests.support import helm
from tests.support.cache import ObtainError, show
from tools.image.apt import Apt
from tools.image.build import build, cache_folder
from tools.image.definition import IMAGES
from tools.image.errors import ImageError

ROOT = Path(__file__).parents[2]
CLUSTER_NAME = "suite"
ASK_TIMEOUT_S = 60.0
END_S = 90.0
"""Kept of the deadline, to show what is known and to remove the cluster."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.nodes", description=__doc__)
    parser.add_argument("level", choices=tuple(levels.NODES))
    parser.add_argument("--where-possible", action="store_true", help="end well where nodes cannot be had, and say why")
    parser.add_argument("--deadline-s", type=float, default=3600.0, help="for all of it (default: 3600)")
    parser.add_argument("tests", nargs="*", help="what pytest runs; all of the level by default")
    given = parser.parse_args(arguments)
    end_s = time.monotonic() + given.deadline_s
    if given.where_possible and (reason := why_not()) is not None:
        show("nodes", f"the scenarios on real nodes are left out here: {reason}")
        return 0
    try:
        return run(given.level, given.tests, end_s)
    except (ObtainError, ImageError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def why_not() -> str | None:
    """What this machine lacks that nobody but its owner can give; None when nothing does."""
    if os.geteuid() != 0:
        return "nodes take root, and this is not root"
    if lacking := [program for program in ("apt-get", "unshare", "nsenter", "mount") if shutil.which(program) is None]:
        return f"there is no {', '.join(lacking)}"
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "true"]
    if subprocess.run(apart, capture_output=True, timeout=ASK_TIMEOUT_S, check=False).returncode != 0:
        return "namespaces of network, mounts and processes may not be made here"
    try:
        Apt(cache_folder() / "apt").update()
    except ImageError as error:
        return f"Debian's packages cannot be had: {error}"
    return None


def run(level: str, tests: list[str], end_s: float) -> int:
    """The exit code of pytest. Raises ObtainError and ImageError."""
    archives = [build(IMAGES[name], cache_folder() / "archives").path for name in levels.IMAGES[level]]
    helm.obtain()
    if level == "full":
        previous()
    cluster = Cluster(CLUSTER_NAME)
    try:
        cluster.up(levels.NODES[level])
        for archive in archives:
            cluster.load(archive)
        return _tested(level, tests, end_s - END_S)
    finally:
        cluster.down()


def _tested(level: str, tests: list[str], end_s: float) -> int:
    inside = [sys.executable, "-m", "e2e.kind", "--name", CLUSTER_NAME, "run", "--"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "--durations=0", "--durations-min=1"]
    environment = {**os.environ, levels.LEVEL_VARIABLE: level}
    left_s = end_s - time.monotonic()
    try:
        done = subprocess.run(
            [*inside, *command, *(tests or ["e2e/nodes"])], cwd=ROOT, env=environment, timeout=left_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise ObtainError(f"the scenarios did not end within the {left_s:.0f} s that were left for them") from late
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
