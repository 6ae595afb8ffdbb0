"""Programs of a control plane and of a node, their versions, and what a folder of them must contain."""

import os
import platform
import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root

KUBERNETES_VERSION = "v1.34.4"
ETCD_VERSION = "v3.6.16"
KIND_VERSION = "v0.33.0"
"""kubernetes/go.mod pins all versions too; a test compares them."""

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
"""Programs of a control plane, and its client."""

NODE_NAMES = ("coredns", "kind", "kube-proxy", "kube-scheduler", "kubeadm", "kubelet", "pause")
"""Further programs of a cluster with nodes (e2e/kind)."""

_KUBERNETES_PACKAGES = "k8s.io/kubernetes/cmd/"
_OTHER_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kind": "sigs.k8s.io/kind",
    "coredns": "./coredns",
    "pause": "./pause",
}

BINARIES_VARIABLE = "SLUICEGATE_KUBE_BINARIES"


def go_package(name: str) -> str:
    return _OTHER_PACKAGES.get(name, f"{_KUBERNETES_PACKAGES}{name}")


def is_of_kubernetes(name: str) -> bool:
    """Return whether Kubernetes' releases contain the program."""
    return name not in _OTHER_PACKAGES


def go_platform() -> tuple[str, str]:
    """Return this machine's platform in the terms of Go, which Kubernetes' release site also uses."""
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


def node_cache_folder() -> Path:
    system, machine = go_platform()
    return cache_root() / f"kubernetes-nodes-{KUBERNETES_VERSION}-kind-{KIND_VERSION}-{system}-{machine}"


def binaries_folder() -> Path:
    """Return the folder of the programs. Raises ObtainError if one is missing: nothing is built or downloaded here."""
    folder = Path(os.environ.get(BINARIES_VARIABLE) or cache_folder()).resolve()
    if missing := missing_in(folder):
        raise ObtainError(f"{folder} lacks {', '.join(missing)}: `make kubernetes` has them built or downloaded")
    return folder


def missing_in(folder: Path, names: tuple[str, ...] = NAMES) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK) or (folder / name).is_dir()]
