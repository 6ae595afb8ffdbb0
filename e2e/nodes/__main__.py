"""`python -m e2e.nodes short|full`: the scenarios on real kubelets, from nothing to a cluster that is gone again.

Makes the image, Helm and a kind cluster of one node (short) or three (full), and runs the tests inside its network.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.process import end_on_sigterm
from e2e.cluster.waiting import NotInTimeError
from e2e.kind.cluster import Cluster, prepare
from e2e.kind.places import RUN_ROOT
from e2e.nodes.site import levels
from e2e.nodes.site.machine import why_not
from e2e.nodes.site.previous import previous
from tests.support.obtain import helm
from tests.support.obtain.cache import ObtainError, one_run_at_a_time, show
from tools.image.build import build, cache_folder
from tools.image.definition import IMAGES
from tools.image.errors import ImageError

ROOT = Path(__file__).parents[2]
CLUSTER_NAME = "suite"
END_S = 90.0
"""Time kept of the deadline, to print a diagnosis and to remove the cluster."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.nodes", description=__doc__)
    parser.add_argument("level", choices=tuple(levels.NODES))
    parser.add_argument("--where-possible", action="store_true", help="end well where nodes cannot be had, and say why")
    parser.add_argument("--deadline-s", type=float, default=3600.0, help="for all of it (default: 3600)")
    parser.add_argument("tests", nargs="*", help="what pytest runs; all of the level by default")
    given = parser.parse_intermixed_args(arguments)
    end_s = time.monotonic() + given.deadline_s
    end_on_sigterm()
    if given.where_possible and (reason := why_not()) is not None:
        show("nodes", f"the scenarios on real nodes are left out here: {reason}")
        return 0
    try:
        return run(given.level, given.tests, end_s)
    except (ObtainError, ImageError, NotInTimeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def run(level: str, tests: list[str], end_s: float) -> int:
    """Run pytest, and return its exit code. Raises ObtainError, ImageError and NotInTimeError."""
    with _until(end_s - END_S):
        prepare()
    RUN_ROOT.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(CLUSTER_NAME)
    # The name cannot be a cluster's, because it has a dot.
    with one_run_at_a_time(RUN_ROOT / "e2e.nodes"):
        try:
            with _until(end_s - END_S):
                archives = [build(IMAGES[name], cache_folder() / "archives").path for name in levels.IMAGES[level]]
                helm.obtain()
                if level == "full":
                    previous()
                cluster.up(levels.NODES[level])
                for archive in archives:
                    cluster.load(archive)
                return _tested(level, tests)
        finally:
            cluster.down()


def _tested(level: str, tests: list[str]) -> int:
    inside = [sys.executable, "-m", "e2e.kind", "--name", CLUSTER_NAME, "run", "--"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "--durations=0", "--durations-min=1"]
    environment = {**os.environ, levels.LEVEL_VARIABLE: level}
    return subprocess.run(
        [*inside, *command, *(tests or ["e2e/nodes"])], cwd=ROOT, env=environment, check=False
    ).returncode


@contextmanager
def _until(end_s: float) -> Iterator[None]:
    """Raise ObtainError in the block at `end_s`, whatever it does then."""

    def late(*_: object) -> None:
        raise ObtainError("the deadline has come before the end of the scenarios: --deadline-s gives them more")

    before = signal.signal(signal.SIGALRM, late)
    # The timer needs a positive time: 0 would disable it.
    signal.setitimer(signal.ITIMER_REAL, max(0.001, end_s - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
