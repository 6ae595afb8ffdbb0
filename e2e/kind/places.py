"""Where the parts of kind are kept, and where a running cluster keeps its files.

Obtained parts are in the cache, one folder for each part, named by all its inputs. A cluster has two folders: one with
its disks (also in the cache, because they are linked from there), and one in /run for sockets, whose paths must be
short.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.binaries import KIND_VERSION, KUBERNETES_VERSION, NAMES, NODE_NAMES, binaries_folder, node_cache_folder
from tests.support.obtain import helm
from tests.support.obtain.cache import ObtainError, cache_root

NODE_FILES = Path(__file__).parent / "node_files"
RUN_ROOT = Path("/run/sluicegate-kind")
NAME_VARIABLE = "SLUICEGATE_KIND_NAME"
DEFAULT_NAME = "sluicegate"

TOOL_PACKAGES = ("containerd", "docker.io", "iproute2", "iptables", "runc", "tini")
"""Programs that run the nodes' containers. They are unpacked to a separate folder, not installed or started."""

NODE_PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "hostname", "libc-bin"),
    *("mawk", "mount", "netbase", "procps", "sed", "systemd", "systemd-sysv", "tar", "usr-is-merged", "util-linux"),
    *("conntrack", "containerd", "containernetworking-plugins", "ethtool", "iproute2", "iptables", "kmod", "runc"),
)

IMAGE = f"sluicegate/kind-node:{KUBERNETES_VERSION}"


def tools_folder() -> Path:
    return cache_root() / f"kind-tools-{_digest(*TOOL_PACKAGES)}"


def packages_folder() -> Path:
    return cache_root() / f"kind-node-packages-{_digest(*NODE_PACKAGES)}"


def store_folder() -> Path:
    """Return the folder of a Docker daemon that has only the node image."""
    files = sorted(path for path in NODE_FILES.rglob("*") if path.is_file())
    recipe = [*files, *(Path(__file__).parent / name for name in ("node_root.py", "image_archive.py", "store.py"))]
    contents = (hashlib.sha256(path.read_bytes()).hexdigest() for path in recipe)
    return cache_root() / f"kind-node-{_digest(KUBERNETES_VERSION, KIND_VERSION, *NODE_PACKAGES, *contents)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class ClusterPlace:
    """The folders and files of one cluster, by its name. Raises ObtainError for an invalid name."""

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", self.name):
            raise ObtainError(
                f"{self.name!r} is no name of a cluster: up to 40 small letters, digits, hyphens, no hyphen first"
            )

    @property
    def disks(self) -> Path:
        return cache_root() / "kind-clusters" / self.name

    @property
    def run(self) -> Path:
        return RUN_ROOT / self.name

    @property
    def docker_host(self) -> str:
        return f"unix://{self.run / 'docker.sock'}"

    @property
    def kubeconfig(self) -> Path:
        return self.run / "kubeconfig"

    @property
    def resolv_conf(self) -> Path:
        return self.run / "resolv.conf"

    def environment(self) -> dict[str, str]:
        """Return this process' environment, with the cluster's programs and Helm first on the path.

        Raises ObtainError.
        """
        nodes = node_cache_folder()
        if not nodes.is_dir():
            raise ObtainError(f"{nodes} is not there: `make kind` has kind's programs built")
        tools = tools_folder()
        path = [nodes, binaries_folder(), helm.place().parent, tools / "usr/sbin", tools / "usr/bin"]
        return os.environ | {
            "PATH": ":".join([*map(str, path), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]),
            "DOCKER_HOST": self.docker_host,
            "KUBECONFIG": str(self.kubeconfig),
            NAME_VARIABLE: self.name,
        }


def program(name: str) -> Path:
    """Return the path of a Kubernetes program of a node."""
    if name in NODE_NAMES:
        return node_cache_folder() / name
    if name in NAMES:
        return binaries_folder() / name
    raise ValueError(f"{name} is no program of a node")
