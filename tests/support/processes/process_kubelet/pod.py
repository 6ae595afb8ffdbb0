"""One pod: its address, its volumes, its containers, from its binding to its last process's end."""

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes.process_kubelet.container import ContainerProcess, ContainerStart
from tests.support.processes.process_kubelet.delays import PodDelays
from tests.support.processes.process_kubelet.names import (
    DENIED_VARIABLE,
    HOSTS_VARIABLE,
    NAMESPACE_VARIABLE,
    SHIM,
    NamedPod,
)
from tests.support.processes.process_kubelet.probes import ProbeTarget, attempt
from tests.support.processes.process_kubelet.translate import command_line, environment
from tests.support.processes.process_kubelet.volumes import PodVolumes

Json = dict[str, Any]

REPOSITORY = Path(__file__).parents[4]
IMAGE_PATHS = (str(REPOSITORY), str(REPOSITORY / "operator"))
"""The Python path of the project's image."""
MESSAGE_PATH = "/dev/termination-log"
"""Default file to which a container writes the message of its status."""
ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_VARIABLE = "SLUICEGATE_SERVICE_ACCOUNT_FOLDER"
"""Variable with the account's folder. It replaces ACCOUNT_PATH, which is one place for all processes of a host."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """The things that the kubelet gives a pod."""

    address: str
    folder: Path
    hosts_file: Path
    volumes: PodVolumes
    workers: ThreadPoolExecutor
    api_host: str
    api_port: int
    delays: PodDelays
    denied_s: float
    give_back_address: Callable[[str], None]


class Pod:
    """The containers and the place of one bound pod."""

    def __init__(self, manifest: Json, node_name: str, place: PodPlace) -> None:
        self.manifest = manifest
        self.node_name = node_name
        self.namespace: str = manifest["metadata"]["namespace"]
        self.name: str = manifest["metadata"]["name"]
        self.uid: str = manifest["metadata"]["uid"]
        self.address = place.address
        self.written_status: Json = {}
        self._place = place
        self._inits: list[ContainerProcess] = []
        self._sidecars: list[ContainerProcess] = []
        """Started before the containers, restarted whenever they end, stopped after the containers."""
        self._containers: list[ContainerProcess] = []
        self._started_at: float | None = None
        self._terminating_since: float | None = None
        self._pre_stops: list[Future[None]] = []
        self._sent: set[signal.Signals] = set()
        self._sidecars_told = False

    @property
    def log(self) -> Path:
        return self._place.folder / "output.log"

    @property
    def pids(self) -> list[int]:
        return [container.pid for container in self._containers if container.pid is not None]

    @property
    def ready(self) -> bool:
        return bool(self._containers) and not self._inits and all(c.ready for c in self._sidecars + self._containers)

    @property
    def exit_codes(self) -> tuple[int | None, ...]:
        return tuple(container.exit_code for container in self._containers)

    @property
    def gates(self) -> list[str]:
        """Conditions that other controllers write and that must be True before the pod is Ready."""
        return [gate["conditionType"] for gate in self.manifest["spec"].get("readinessGates", [])]

    @property
    def gates_open(self) -> bool:
        conditions = self.manifest.get("status", {}).get("conditions", [])
        stored = {condition["type"]: condition["status"] for condition in conditions}
        return all(stored.get(gate) == "True" for gate in self.gates)

    @property
    def terminating(self) -> bool:
        return self._terminating_since is not None

    def update(self, manifest: Json) -> None:
        self.manifest = manifest
        self._place.volumes.show(manifest)

    def prepare(self) -> None:
        """Prepare volumes and containers. Raises ApiRefused while an object that the pod names does not exist yet."""
        self._place.volumes.prepare()
        self._inits = [self._container(spec) for spec in self._init_specs if not _is_sidecar(spec)]
        self._sidecars = [self._container(spec) for spec in self._init_specs if _is_sidecar(spec)]
        policy = self.manifest["spec"].get("restartPolicy", "Always")
        self._containers = [self._container(spec, policy) for spec in self.manifest["spec"]["containers"]]

    def is_reported(self, now: float) -> bool:
        """Whether the kubelet has checked the pod since its first container runs."""
        return self._started_at is not None and now >= self._started_at + self._place.delays.address_s

    def has_name(self, now: float) -> bool:
        return self.is_reported(now - self._place.delays.name_s)

    def look_at_files(self, now: float, data_of: Callable[[str, str], Json | None]) -> None:
        """Update volumes from their ConfigMaps and Secrets while containers run; a container's environment stays."""
        self._place.volumes.follow(now, self._place.delays.file_s, data_of)

    def sync(self, now: float) -> None:
        self._started_at = now if self._started_at is None else self._started_at
        while self._inits and self._inits[0].completed():
            self._inits.pop(0)
        for container in self._inits[:1] or self._sidecars:
            container.sync(now)
        if not self._inits and all(sidecar.was_started for sidecar in self._sidecars):
            for container in self._containers:
                container.sync(now)

    def terminate(self, now: float) -> bool:
        """Do one step of the pod's termination; return True when no process is left."""
        containers = [container for container in self._inits + self._containers if container.pid is not None]
        sidecars = [container for container in self._sidecars if container.pid is not None]
        if self._terminating_since is None:
            self._terminating_since = now
            self._pre_stops = [
                self._place.workers.submit(self._run_pre_stop, container, hook)
                for container in containers
                if (hook := _pre_stop(container.spec)) is not None
            ]
        grace_s = self.manifest["metadata"].get("deletionGracePeriodSeconds", 30)
        overdue = now >= self._terminating_since + grace_s
        if overdue or all(hook.done() for hook in self._pre_stops):
            self._send_once(signal.SIGTERM, containers)
        if not containers:
            self._end_sidecars(sidecars)
        if overdue:
            self._send_once(signal.SIGKILL, containers + sidecars)
        return not containers and not sidecars

    def kill(self, number: signal.Signals) -> None:
        for container in self._all:
            container.send(number)

    def reap(self, timeout_s: float) -> None:
        for container in self._all:
            container.reap(timeout_s)

    def hold(self, *, held: bool) -> None:
        for container in self._sidecars + self._containers:
            container.held = held

    def release_place(self) -> None:
        self._place.volumes.remove()
        self._place.give_back_address(self.address)

    def container_statuses(self, now: float) -> tuple[list[Json], list[Json], list[Json]]:
        """Statuses of init containers that have not ended, of sidecars, and of containers."""
        seen = self.is_reported(now)
        inits, sidecars, containers = (
            [container.status(seen=seen) for container in kind]
            for kind in (self._inits, self._sidecars, self._containers)
        )
        return inits, sidecars, containers

    def named(self) -> NamedPod:
        spec, metadata = self.manifest["spec"], self.manifest["metadata"]
        return NamedPod(
            namespace=self.namespace,
            hostname=spec.get("hostname", self.name),
            subdomain=spec.get("subdomain", ""),
            labels=tuple(sorted(metadata.get("labels", {}).items())),
            address=self.address,
            ready=self.ready and self.gates_open and not self.terminating,
        )

    def _container(self, spec: Json, restart_policy: str = "Always") -> ContainerProcess:
        mounts = self._place.volumes.mounts(spec)
        message = self._place.folder / f"{spec['name']}.message"
        mounts = mounts.also(spec.get("terminationMessagePath", MESSAGE_PATH), message)
        declared = environment(self.manifest, spec, self.address, self._place.volumes.keys)
        paths = [str(SHIM), *IMAGE_PATHS, *filter(None, [mounts.rewrite(declared.get("PYTHONPATH", ""))])]
        env = {name: mounts.rewrite(value) for name, value in declared.items()} | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
            "HOSTNAME": self.name,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONUNBUFFERED": "1",
            HOSTS_VARIABLE: str(self._place.hosts_file),
            DENIED_VARIABLE: str(self._place.denied_s),
            NAMESPACE_VARIABLE: self.namespace,
            "KUBERNETES_SERVICE_HOST": self._place.api_host,
            "KUBERNETES_SERVICE_PORT": str(self._place.api_port),
        }
        if ACCOUNT_PATH in mounts.folders:
            env[ACCOUNT_VARIABLE] = mounts.folders[ACCOUNT_PATH]
        ports = {port["name"]: port["containerPort"] for port in spec.get("ports", []) if "name" in port}
        start = ContainerStart(
            command=command_line(spec, declared, mounts),
            env=env,
            working_dir=self._place.folder,
            log=self.log,
            probe_target=ProbeTarget(self.address, ports, env, mounts),
            message=message,
            restart_policy=restart_policy,
        )
        return ContainerProcess(spec, start, self._place.workers)

    def _run_pre_stop(self, container: ContainerProcess, hook: Json) -> None:
        """Run a preStop hook. A hook that fails ends nothing: SIGTERM follows nevertheless, as with a kubelet."""
        succeeded, message = attempt(hook, container.probe_target)
        outcome = "done" if succeeded else "failed"
        container.log_line(f"preStop {outcome}: {message.strip()}")

    @property
    def _init_specs(self) -> list[Json]:
        found: list[Json] = self.manifest["spec"].get("initContainers", [])
        return found

    @property
    def _all(self) -> list[ContainerProcess]:
        return self._inits + self._sidecars + self._containers

    def _end_sidecars(self, sidecars: list[ContainerProcess]) -> None:
        if not self._sidecars_told:
            self._sidecars_told = True
            for container in sidecars:
                container.send(signal.SIGTERM)

    def _send_once(self, number: signal.Signals, containers: list[ContainerProcess]) -> None:
        if number not in self._sent:
            self._sent.add(number)
            for container in containers:
                container.send(number)


def _is_sidecar(init_container: Json) -> bool:
    """Whether an init container is a sidecar, as defined by Kubernetes 1.29 and later."""
    return init_container.get("restartPolicy") == "Always"


def _pre_stop(container: Json) -> Json | None:
    """The preStop hook as a probe, which can be attempted; `sleep` becomes the command."""
    hook: Json | None = container.get("lifecycle", {}).get("preStop")
    if hook is None:
        return None
    if "sleep" in hook:
        seconds = hook["sleep"]["seconds"]
        return {"exec": {"command": ["sleep", str(seconds)]}, "timeoutSeconds": seconds + 1}
    return hook | {"timeoutSeconds": 60}
