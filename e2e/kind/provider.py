"""The cluster that tests use, and operations on its nodes.

SLUICEGATE_CLUSTER selects it: `kind` (the default; `python -m e2e.kind up` created it, and the tests run under `python
-m e2e.kind run`) or `kubeconfig`, an existing cluster that KUBECONFIG names.
"""

import os
from pathlib import Path
from typing import Protocol

from e2e.kind.cluster import Cluster
from e2e.kind.places import DEFAULT_NAME, NAME_VARIABLE
from tests.support.obtain.cache import ObtainError

CLUSTER_VARIABLE = "SLUICEGATE_CLUSTER"


class CannotError(Exception):
    """This project must not break the nodes of the cluster; the message names the requested operation."""


class Provider(Protocol):
    """Operations of tests on a cluster beyond its API. They raise CannotError if `can_break_nodes` is false."""

    can_break_nodes: bool

    @property
    def kubeconfig(self) -> Path: ...

    def load(self, archive: Path) -> None:
        """Import the image of an archive on every node."""

    def kill(self, node: str) -> None:
        """End the node at once, as if its power were cut. Its volumes stay."""

    def start(self, node: str) -> None:
        """Start a node that was killed."""

    def partition(self, node: str) -> None:
        """Cut the node off from the network; its processes continue."""

    def heal(self, node: str) -> None:
        """End the partition of a node."""

    def stop_api_server(self) -> None:
        """End the API server and keep it down."""

    def start_api_server(self) -> None:
        """Let the API server run again."""


class GivenCluster:
    """An existing cluster. Its owner provides the images: in a registry that its nodes pull from."""

    can_break_nodes = False

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def load(self, archive: Path) -> None:
        raise CannotError(f"{archive.name} cannot be put on nodes of a given cluster: name an image that they can pull")

    def kill(self, node: str) -> None:
        raise CannotError(f"{node} is not killed: the cluster was given")

    def start(self, node: str) -> None:
        raise CannotError(f"{node} is not started: the cluster was given")

    def partition(self, node: str) -> None:
        raise CannotError(f"{node} is not cut off: the cluster was given")

    def heal(self, node: str) -> None:
        raise CannotError(f"{node} is not connected: the cluster was given")

    def stop_api_server(self) -> None:
        raise CannotError("the API server is not stopped: the cluster was given")

    def start_api_server(self) -> None:
        raise CannotError("the API server is not started: the cluster was given")


class KindCluster:
    """A cluster that `python -m e2e.kind up` created."""

    can_break_nodes = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._docker = cluster.daemon.docker

    @property
    def kubeconfig(self) -> Path:
        return self._cluster.place.kubeconfig

    def load(self, archive: Path) -> None:
        self._cluster.load(archive)

    def kill(self, node: str) -> None:
        self._docker("kill", node)

    def start(self, node: str) -> None:
        self._docker("start", node)

    def partition(self, node: str) -> None:
        self._cluster.in_network("ip", "link", "set", self._interface_of(node), "nomaster")

    def heal(self, node: str) -> None:
        bridge = f"br-{self._docker('network', 'inspect', '--format', '{{.Id}}', 'kind')[:12]}"
        self._cluster.in_network("ip", "link", "set", self._interface_of(node), "master", bridge)

    def stop_api_server(self) -> None:
        self._move_api_server("/etc/kubernetes/manifests", "/etc/kubernetes")

    def start_api_server(self) -> None:
        self._move_api_server("/etc/kubernetes", "/etc/kubernetes/manifests")

    def _move_api_server(self, here: str, there: str) -> None:
        """Move the API server's manifest.

        The kubelet of the control plane runs the contents of its folder of manifests.
        """
        node = f"{self._cluster.place.name}-control-plane"
        self._docker("exec", node, "mv", f"{here}/kube-apiserver.yaml", there)

    def _interface_of(self, node: str) -> str:
        """Return the bridge's end of the node's interface."""
        number = self._docker("exec", node, "cat", "/sys/class/net/eth0/iflink").strip()
        for line in self._cluster.in_network("ip", "--oneline", "link").splitlines():
            index, name = line.split(": ")[:2]
            if index == number:
                return name.partition("@")[0]
        raise ObtainError(f"{node} has no interface {number} in the cluster's network")


def provider() -> Provider:
    """Return the selected provider. Raises ObtainError."""
    chosen = os.environ.get(CLUSTER_VARIABLE, "kind")
    if chosen == "kubeconfig":
        if not (given := os.environ.get("KUBECONFIG")):
            raise ObtainError(f"{CLUSTER_VARIABLE}=kubeconfig takes the cluster of KUBECONFIG, which is not set")
        return GivenCluster(Path(given))
    if chosen == "kind":
        cluster = Cluster(os.environ.get(NAME_VARIABLE, DEFAULT_NAME))
        cluster.nodes()
        return KindCluster(cluster)
    raise ObtainError(f"{CLUSTER_VARIABLE} is {chosen}; it can be kind or kubeconfig")
