"""Creates and removes a kind cluster on a machine without a container registry."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import yaml

from e2e.cluster.binaries import KUBERNETES_VERSION
from e2e.cluster.obtain import obtain, obtain_for_nodes
from e2e.kind.config import DNS_ADDRESS, SERVICE_SUBNET, kind_config
from e2e.kind.daemon import Daemon
from e2e.kind.places import IMAGE, RUN_ROOT, ClusterPlace
from e2e.kind.store import link, obtain_store
from e2e.kind.tools import obtain_tools
from tests.support.obtain.cache import ObtainError, show

CREATE_TIMEOUT_S = 420
"""One node is ready in 20 s and three in 35 s; the first time, and occasionally, it takes several times that."""

COMMAND_TIMEOUT_S = 300
NODES_MAX = 9
JOURNALS = ("--unit=kubelet", "--unit=containerd", "--unit=podnet", "--unit=volumes")
DIAGNOSIS_CHARACTERS = 6000


def prepare() -> Path:
    """Obtain all parts of a cluster. Raises ObtainError."""
    _must_be_root()
    if shutil.which("apt-get") is None or shutil.which("unshare") is None:
        raise ObtainError("a cluster of nodes is made of Debian's packages, and there is no apt-get or unshare here")
    obtain()
    obtain_for_nodes()
    obtain_tools()
    return obtain_store()


def _must_be_root() -> None:
    if os.geteuid() != 0:
        raise ObtainError("nodes take root: containers, network namespaces and mounts are made by it")


class Cluster:
    """One cluster by its name; clusters with different names are independent."""

    def __init__(self, name: str) -> None:
        self.place = ClusterPlace(name)

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.place.disks, self.place.run, self.place.environment)

    def up(self, nodes: int) -> None:
        """Create a new cluster with that many nodes, the first of them the control plane. Raises ObtainError."""
        if not 1 <= nodes <= NODES_MAX:
            raise ObtainError(f"a cluster has 1 to {NODES_MAX} nodes, not {nodes}")
        prepare()
        with self._alone():
            self._remove()
            link(self.place.disks)
            started = time.monotonic()
            try:
                self._create(nodes)
            except BaseException as failure:
                if isinstance(failure, ObtainError):
                    self._show_what_is_known()
                self._remove()
                raise
            show("kind", f"{nodes} {'node' if nodes == 1 else 'nodes'} ready after {time.monotonic() - started:.0f} s")

    def down(self) -> None:
        """Remove the cluster, even if nothing of it exists. Raises ObtainError."""
        _must_be_root()
        with self._alone():
            self._remove()

    def load(self, archive: Path) -> None:
        """Import a docker or OCI archive on every node. Raises ObtainError."""
        started = time.monotonic()
        nodes = self.nodes()
        with ThreadPoolExecutor(len(nodes)) as pool:
            for done in [pool.submit(self._load_on, node, archive) for node in nodes]:
                done.result()
        show("kind", f"{archive.name} is on {', '.join(nodes)} after {time.monotonic() - started:.1f} s")

    def nodes(self) -> list[str]:
        """Return the names of the nodes' containers, which are also those of the Nodes.

        Raises ObtainError if the cluster does not run.
        """
        if self.daemon.pid is None:
            raise ObtainError(f"there is no cluster {self.place.name}: `python -m e2e.kind up` makes one")
        listed = self.daemon.docker("ps", "--all", "--format", "{{.Names}}", "--filter", "label=io.x-k8s.kind.cluster")
        return sorted(listed.split())

    def inside(self, *command: str) -> list[str]:
        """Return the command line that runs `command` in the cluster's network."""
        return ["nsenter", "--target", str(self.daemon.pid), "--net", "--", *command]

    def in_network(self, *command: str) -> str:
        """Run a command in the cluster's network, and return its standard output. Raises ObtainError."""
        return self._run(*self.inside(*command))

    def kubectl(self, *arguments: str) -> str:
        return self.in_network("kubectl", *arguments)

    def _create(self, nodes: int) -> None:
        self.daemon.start()
        config = self.place.run / "kind.yaml"
        config.write_text(yaml.safe_dump(kind_config(nodes)))
        name = ["--name", self.place.name, "--kubeconfig", str(self.place.kubeconfig)]
        show("kind", f"creating {nodes} of Kubernetes {KUBERNETES_VERSION}")
        create = ["kind", "create", "cluster", *name, "--image", IMAGE, "--config", str(config), "--retain"]
        self._run(*self.inside(*create, "--wait", "180s"), timeout_s=CREATE_TIMEOUT_S)
        self._speak_to_the_api_server_itself()
        self._let_pods_on_the_control_plane()
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=180s")
        self._route()
        self.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=180s")
        self.place.resolv_conf.write_text(
            f"nameserver {DNS_ADDRESS}\nsearch default.svc.cluster.local svc.cluster.local cluster.local\n"
            "options ndots:5\n"
        )

    def _speak_to_the_api_server_itself(self) -> None:
        """Let the kubeconfig name the API server itself.

        kind names Docker's proxy, which accepts connections even if the API server is down.
        """
        first = f"{self.place.name}-control-plane"
        address = self.daemon.docker("inspect", "--format", "{{.NetworkSettings.Networks.kind.IPAddress}}", first)
        server = f"--server=https://{address.strip()}:6443"
        self.kubectl("config", "set-cluster", f"kind-{self.place.name}", server)

    def _let_pods_on_the_control_plane(self) -> None:
        """Remove the control plane's taint, as on a cluster of one node: three nodes are three zones for pods."""
        first = f"{self.place.name}-control-plane"
        if "control-plane:" in self.kubectl("get", "node", first, "-o", "jsonpath={range .spec.taints[*]}{.key}:{end}"):
            self.kubectl("taint", "node", first, "node-role.kubernetes.io/control-plane-")

    def _route(self) -> None:
        """Route pods through their nodes, and Services through the first node."""
        shown = self.kubectl(
            "get", "nodes", "-o", 'jsonpath={range .items[*]}{.status.addresses[0].address} {.spec.podCIDR}{"\\n"}{end}'
        )
        ways = [line.split() for line in shown.splitlines()]
        for address, pods in [*ways, (ways[0][0], SERVICE_SUBNET)]:
            self.in_network("ip", "route", "replace", pods, "via", address)

    def _load_on(self, node: str, archive: Path) -> None:
        imported = ["docker", "exec", "--interactive", node, "ctr", "--namespace=k8s.io", "images", "import", "-"]
        with archive.open("rb") as content:
            self._run(*imported, stdin=content.fileno())

    def _run(self, *command: str, timeout_s: float = COMMAND_TIMEOUT_S, stdin: int = subprocess.DEVNULL) -> str:
        try:
            done = subprocess.run(
                command,
                env=self.place.environment(),
                stdin=stdin,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as silence:
            raise ObtainError(f"no end within {timeout_s:g} s: {' '.join(command)}") from silence
        if done.returncode != 0:
            raise ObtainError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
        return done.stdout

    def _show_what_is_known(self) -> None:
        """Print what each node reports, and the events, of a cluster that did not start."""
        commands = [self.inside("kubectl", "get", "pods,events", "--all-namespaces", "--output=wide")]
        with contextlib.suppress(ObtainError):
            for node in self.nodes():
                commands.append(["docker", "logs", "--tail=40", node])
                commands.append(["docker", "exec", node, "journalctl", "--no-pager", "--lines=40", *JOURNALS])
        for command in commands:
            done = subprocess.run(
                ["timeout", "60", *command], env=self.place.environment(), capture_output=True, text=True, check=False
            )
            sys.stderr.write(f"--- {' '.join(command)}\n{(done.stdout + done.stderr)[-DIAGNOSIS_CHARACTERS:]}\n")

    def _remove(self) -> None:
        self.daemon.end()
        shutil.rmtree(self.place.disks, ignore_errors=True)
        shutil.rmtree(self.place.run, ignore_errors=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        RUN_ROOT.mkdir(parents=True, exist_ok=True)
        with (RUN_ROOT / f"{self.place.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
