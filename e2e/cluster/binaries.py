"""Which programs make a control plane, in which versions, and what a folder of them must hold."""

import os
import platform
import sys
from pathlib import Path

from tests.support.cache import ObtainError, cache_root

KUBERNETES_VERSION = "v1.34.4"
ETCD_VERSION = "v3.6.16"
"""Both are pinned in kubernetes/go.mod too; a test compares them."""

GO_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
NAMES = tuple(GO_PACKAGES)

BINARIES_VARIABLE = "SLUICEGATE_KUBE_BINARIES"


def go_platform() -> tuple[str, str]:
    """This machine in Go's words, which are also those of Kubernetes' release site."""
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(
        platform.machine().lower()
    )
    if system is None or machine is None:
        raise ObtainError(
            f"no Kubernetes control plane is built for {sys.platform} on {platform.machine()};"
            f" set {BINARIES_VARIABLE} to a folder with {', '.join(NAMES)}"
        )
    return system, machine


def cache_folder() -> Path:
    system, machine = go_platform()
    return cache_root() / f"kubernetes-{KUBERNETES_VERSION}-{system}-{machine}"


def binaries_folder() -> Path:
    """Where the programs are. Raises ObtainError when one is missing: nothing is built or downloaded here."""
    folder = Path(os.environ.get(BINARIES_VARIABLE) or cache_folder()).resolve()
    if missing := missing_in(folder):
        raise ObtainError(f"{folder} lacks {', '.join(missing)}: `make kubernetes` has them built or downloaded")
    return folder


def missing_in(folder: Path) -> list[str]:
    return [name for name in NAMES if not os.access(folder / name, os.X_OK) or (folder / name).is_dir()]
