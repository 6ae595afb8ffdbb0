"""Builds the control plane's programs with Go, from the module in kubernetes/.

go.mod and go.sum there pin every module; `-mod=readonly` makes Go refuse anything that they do not name. The first
build compiles all of Kubernetes (about six minutes on two cores); Go's own build cache makes later ones quick.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from e2e.cluster.binaries import BINARIES_VARIABLE, GO_PACKAGES, KUBERNETES_VERSION, NAMES, ObtainError
from e2e.cluster.download import ETCD_BASE_VARIABLE, KUBE_BASE_VARIABLE

MODULE = Path(__file__).parent / "kubernetes"
BUILD_TIMEOUT_S = 3600.0


def _ldflags(name: str) -> str:
    if name == "etcd":
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
    command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", _ldflags(name), "-o", str(folder / name)]
    built = subprocess.run(
        [*command, GO_PACKAGES[name]],
        cwd=MODULE,
        env=os.environ | {"CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if built.returncode != 0:
        raise ObtainError(f"building {name} failed:\n{built.stderr[-4000:]}")
    progress(f"built {name} in {time.monotonic() - started:.0f} s")
