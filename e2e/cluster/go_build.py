"""Builds the programs of control planes and nodes with Go, from the module in kubernetes/.

go.mod and go.sum there pin every module; `-mod=readonly` makes Go refuse modules that they do not name. The first
build compiles all of Kubernetes, about six minutes on two cores.
"""

from pathlib import Path

from e2e.cluster.binaries import BINARIES_VARIABLE, KUBERNETES_VERSION, NAMES, go_package, is_of_kubernetes
from e2e.cluster.download import ETCD_BASE_VARIABLE, KUBE_BASE_VARIABLE
from tests.support.obtain.go_build import build

MODULE = Path(__file__).parent / "kubernetes"
WITHOUT_GO = (
    f"install Go (1.26 or later, as `go` on PATH), or set {BINARIES_VARIABLE} to a folder with {', '.join(NAMES)}, or"
    f" {KUBE_BASE_VARIABLE} and {ETCD_BASE_VARIABLE} to the release sites to download from"
)


def build_binary(name: str, folder: Path) -> None:
    """Build one program into `folder`. Raises ObtainError."""
    arguments = ["build", "-mod=readonly", "-trimpath", "-ldflags", _ldflags(name), "-o", str(folder / name)]
    build("kubernetes", name, [*arguments, go_package(name)], without_go=WITHOUT_GO, cwd=MODULE)


def _ldflags(name: str) -> str:
    if not is_of_kubernetes(name):
        return "-s -w"
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    version = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in version.items())
