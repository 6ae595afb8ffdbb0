"""Builds the programs of control planes and nodes with Go, from the module in kubernetes/.

go.mod and go.sum there pin every module; `-mod=readonly` makes Go refuse anything that they do not name. The first
build compiles all of Kubernetes (about six minutes on two cores); Go's own build cache makes later ones quick, and one
that was interrupted goes on where it was.
"""

import os
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from e2e.cluster.binaries import BINARIES_VARIABLE, KUBERNETES_VERSION, NAMES, go_package, is_of_kubernetes
from e2e.cluster.download import ETCD_BASE_VARIABLE, KUBE_BASE_VARIABLE
from tests.support.cache import ObtainError

MODULE = Path(__file__).parent / "kubernetes"
BUILD_TIMEOUT_S = 3600.0
PROGRESS_INTERVAL_S = 15.0
OUTPUT_LINES_KEPT = 80
"""Of what Go prints, to show when it fails."""


def _ldflags(name: str) -> str:
    if not is_of_kubernetes(name):
        return "-s -w"
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    version = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in version.items())


def build_binary(name: str, folder: Path, progress: Callable[[str], None]) -> None:
    go = shutil.which("go")
    if go is None:
        raise ObtainError(
            f"{name} must be built and Go is not installed. Install Go (1.26 or later, as `go` on PATH), or set"
            f" {BINARIES_VARIABLE} to a folder with {', '.join(NAMES)}, or {KUBE_BASE_VARIABLE} and"
            f" {ETCD_BASE_VARIABLE} to the release sites to download from."
        )
    progress(f"building {name} with Go (minutes the first time) ...")
    started = time.monotonic()
    command = [go, "build", "-v", "-mod=readonly", "-trimpath", "-ldflags", _ldflags(name), "-o", str(folder / name)]
    with subprocess.Popen(
        [*command, go_package(name)],
        cwd=MODULE,
        env=os.environ | {"CGO_ENABLED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as building:
        overdue = threading.Timer(BUILD_TIMEOUT_S, building.kill)
        overdue.start()
        try:
            last_lines = _follow(building, name, progress)
            code = building.wait()
        except BaseException:
            building.kill()
            raise
        finally:
            overdue.cancel()
    if code != 0:
        raise ObtainError(f"building {name} failed:\n{last_lines}")
    progress(f"built {name} in {time.monotonic() - started:.0f} s")


def _follow(building: subprocess.Popen[str], name: str, progress: Callable[[str], None]) -> str:
    """`go build -v` prints each package that it compiles and each module that it downloads. Returns the last lines."""
    kept: deque[str] = deque(maxlen=OUTPUT_LINES_KEPT)
    started = shown = time.monotonic()
    downloaded = compiled = 0
    for line in building.stderr or ():
        kept.append(line)
        downloaded += line.startswith("go: downloading ")
        compiled += not line.startswith(("go: ", "#", "\t"))
        now = time.monotonic()
        if now - shown >= PROGRESS_INTERVAL_S:
            shown = now
            progress(f"{name}: {downloaded} modules downloaded, {compiled} packages compiled, {now - started:.0f} s")
    return "".join(kept)
