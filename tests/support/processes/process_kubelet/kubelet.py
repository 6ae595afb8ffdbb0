"""A kubelet for tests, without root: the pods of one control plane as local processes.

    with ProcessKubelet(Access(plane.url, str(plane.certificate), plane.token), folder) as kubelet:
        kubelet.hold_pod("default", "shop-broker-1")

Owns what the scheduler and a kubelet do for a pod: binding, address, volumes, processes, probes, status, names, the
end. It does not isolate: processes share the host's files and network. Mount paths are therefore rewritten, and every
pod has its own loopback address. Its nodes can be lost. Like a real kubelet it reports changes late. Short back-offs
keep tests quick. One thread does all of it.
"""

import functools
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tests.support.processes.process_kubelet.addresses import PodAddresses
from tests.support.processes.process_kubelet.api import Access, ApiRefused, ApiUnavailable, KubeApi
from tests.support.processes.process_kubelet.delays import Delays
from tests.support.processes.process_kubelet.names import HostsFile, NamedService, host_lines
from tests.support.processes.process_kubelet.node import Node
from tests.support.processes.process_kubelet.pod import Pod, PodPlace
from tests.support.processes.process_kubelet.spread import Candidate, choose_node
from tests.support.processes.process_kubelet.status import PodView, pod_status
from tests.support.processes.process_kubelet.volumes import PodVolumes, claim_folder, plain_data

Json = dict[str, Any]

TICK_S = 0.1
NODE_NAMES = ("process-node-0", "process-node-1", "process-node-2")
"""Pods are spread over these nodes, so that one can be lost and leave the others. Each is a zone: zone-0 and so on."""
PROBERS = 8
FILES_EVERY_S = 0.5
"""Interval of checks for changed ConfigMaps and Secrets."""
STOP_TIMEOUT_S = 10.0


class ProcessKubelet:
    """A kubelet that runs pods as processes: its nodes, its pods, and the thread that syncs them."""

    def __init__(self, access: Access, folder: Path, delays: Delays | None = None) -> None:
        """Prepare a kubelet; `delays` are those of its reports, by default as long as on a real node."""
        self._api = KubeApi(access)
        self._folder = folder
        self._addresses = PodAddresses()
        self._nodes = {name: Node(self._api, name, f"zone-{n}") for n, name in enumerate(NODE_NAMES)}
        self._hosts = HostsFile(folder / "hosts")
        self._workers = ThreadPoolExecutor(PROBERS, thread_name_prefix="probe")
        self._pods: dict[str, Pod] = {}
        self._held: set[tuple[str, str]] = set()
        self._delays = delays or Delays()
        self._adopted: Counter[tuple[str, str]] = Counter()
        self._files_at = 0.0
        self._volumes_on: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process-kubelet")
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._hosts.write([])
        for node in self._nodes.values():
            node.register()
            node.beat(time.monotonic())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        with self._lock:
            for pod in self._pods.values():
                pod.kill(signal.SIGKILL)
            for pod in self._pods.values():
                pod.reap(STOP_TIMEOUT_S)
        self._workers.shutdown()
        self._addresses.close()
        self._api.close()
        self.must_run()

    def must_run(self) -> None:
        if self._failure is not None:
            raise RuntimeError("the process kubelet failed while tests ran") from self._failure

    def logs(self, namespace: str, name: str) -> str:
        return (self._folder / "pods" / namespace / name / "output.log").read_text(errors="replace")

    def pids(self, namespace: str, name: str) -> list[int]:
        with self._lock:
            return self._pod(namespace, name).pids

    def claim_folder(self, namespace: str, name: str, uid: str) -> Path:
        """The folder of a claim's volume, for a test that puts something on it."""
        return claim_folder(self._folder / "claims", namespace, name, uid)

    def address(self, namespace: str, name: str) -> str:
        with self._lock:
            return self._pod(namespace, name).address

    def kill_container(self, namespace: str, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill a container's process as a crash does; the kubelet restarts it unless the pod is held."""
        with self._lock:
            self._pod(namespace, name).kill(number)

    def hold_pod(self, namespace: str, name: str) -> None:
        """Kill the pod's processes and keep them down, also for a successor of that name: a broker that is away."""
        with self._lock:
            self._held.add((namespace, name))
            pod = self._pod(namespace, name)
            pod.hold(held=True)
            pod.kill(signal.SIGKILL)

    def release_pod(self, namespace: str, name: str) -> None:
        with self._lock:
            self._held.discard((namespace, name))
            for pod in self._pods.values():
                if (pod.namespace, pod.name) == (namespace, name):
                    pod.hold(held=False)

    def node_of(self, namespace: str, name: str) -> str:
        with self._lock:
            return self._pod(namespace, name).node_name

    def lose_node(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Take the node's power away, or with SIGSTOP its network.

        Its pods' statuses are no longer written, and it is not Ready.
        """
        with self._lock:
            pods = self._on(name)
            for pod in pods:
                pod.kill(number)
            self._nodes[name].lose()
            for pod in pods:
                # The node controller does this as well: it clears Ready, and nothing else, on the pods of a lost node.
                self._patch_status(pod, {"conditions": [{"type": "Ready", "status": "False"}]})

    def restore_node(self, name: str) -> None:
        """Bring the node back: its kubelet restarts the pods that still have an object, and ends the others."""
        with self._lock:
            self._nodes[name].restore()
            for pod in self._on(name):
                pod.kill(signal.SIGCONT)

    def _on(self, node_name: str) -> list[Pod]:
        return [pod for pod in self._pods.values() if pod.node_name == node_name]

    def _is_lost(self, pod: Pod) -> bool:
        return self._nodes[pod.node_name].lost

    def _pod(self, namespace: str, name: str) -> Pod:
        found = [p for p in self._pods.values() if (p.namespace, p.name) == (namespace, name)]
        if not found:
            raise LookupError(f"no pod {namespace}/{name} runs here")
        return found[-1]

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._tick()
                except ApiUnavailable:
                    self._tick_alone()
                self._stopping.wait(TICK_S)
        except BaseException as failure:
            self._failure = failure
            raise

    def _tick_alone(self) -> None:
        """Sync the pods while the API server is away: they continue unchanged, as on a real node."""
        with self._lock:
            now = time.monotonic()
            for pod in self._pods.values():
                if not pod.terminating and not self._is_lost(pod):
                    pod.sync(now)

    def _tick(self) -> None:
        with self._lock:
            # Under the lock: a heartbeat in progress must not follow the node's loss.
            for node in self._nodes.values():
                node.beat(time.monotonic())
        listed = self._api.get("/api/v1/pods?resourceVersion=0")["items"]
        services = self._api.get("/api/v1/services?resourceVersion=0")["items"]
        with self._lock:
            present = {manifest["metadata"]["uid"] for manifest in listed}
            for manifest in listed:
                self._sync_pod(manifest)
            for uid in set(self._pods) - present:
                if not self._is_lost(self._pods[uid]):
                    self._end_vanished(self._pods[uid])
            now = time.monotonic()
            named = [pod.named() for pod in self._pods.values() if pod.has_name(now)]
            self._hosts.write(host_lines(named, _named_services(services)))
            if now >= self._files_at:
                self._files_at = now + FILES_EVERY_S
                self._follow_files(now)

    def _follow_files(self, now: float) -> None:
        @functools.cache
        def data_of(namespace: str, kind: str, name: str) -> Json | None:
            plural = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
            try:
                return plain_data(kind, self._api.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}"))
            except ApiRefused:
                return None

        for pod in self._pods.values():
            if not self._is_lost(pod):
                pod.look_at_files(now, functools.partial(data_of, pod.namespace))

    def _sync_pod(self, manifest: Json) -> None:
        now = time.monotonic()
        metadata = manifest["metadata"]
        try:
            pod = self._pods.get(metadata["uid"])
            if manifest["spec"].get("nodeName", "") not in ("", *self._nodes):
                # A pod of another kubelet.
                return
            if pod is None:
                if "deletionTimestamp" in metadata:
                    self._delete_object(manifest)
                    return
                node_name = manifest["spec"].get("nodeName") or self._bind(manifest)
                if node_name is None:
                    self._say_unschedulable(manifest)
                    return
                pod = self._adopt(manifest, node_name)
            if self._is_lost(pod):
                return
            pod.update(manifest)
            if "deletionTimestamp" in metadata:
                if pod.terminate(now):
                    self._delete_object(manifest)
                    self._forget(pod)
                    return
            else:
                pod.sync(now)
            self._write_status(pod)
        except ApiRefused as refusal:
            # Also a ConfigMap that does not exist yet: the next check reads the current state.
            if not refusal.is_overtaken:
                raise

    def _adopt(self, manifest: Json, node_name: str) -> Pod:
        metadata = manifest["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        folder = self._folder / "pods" / namespace / name
        folder.mkdir(parents=True, exist_ok=True)
        volumes = PodVolumes(self._api, manifest, folder / metadata["uid"], self._folder / "claims")
        address = self._addresses.take()
        place = PodPlace(
            address=address,
            folder=folder,
            hosts_file=self._hosts.path,
            volumes=volumes,
            workers=self._workers,
            api_host=self._api.host,
            api_port=self._api.port,
            delays=self._delays.of_pod(f"{namespace}/{name}", self._adopted[namespace, name]),
            denied_s=self._delays.denied_s,
            give_back_address=self._addresses.give_back,
        )
        pod = Pod(manifest, node_name, place)
        try:
            pod.prepare()
        except BaseException:
            pod.release_place()
            raise
        pod.hold(held=(namespace, name) in self._held)
        self._adopted[namespace, name] += 1
        self._pods[metadata["uid"]] = pod
        return pod

    def _bind(self, manifest: Json) -> str | None:
        """Bind the pod as the scheduler would and return its node.

        A lost node is never chosen. Returns None if no node fits this pod.
        """
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        candidates = [
            Candidate(node.name, node.labels, [pod.manifest for pod in self._on(node.name)])
            for node in self._nodes.values()
            if not node.lost
        ]
        node_name = choose_node(manifest, candidates, self._volumes_on.get((namespace, name)))
        if node_name is None:
            return None
        self._volumes_on[namespace, name] = node_name
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self._api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding)
        return node_name

    def _write_status(self, pod: Pod) -> None:
        now = time.monotonic()
        inits, sidecars, containers = pod.container_statuses(now)
        stored = pod.manifest.get("status", {})
        view = PodView(
            address=pod.address if pod.is_reported(now) else "",
            init_statuses=inits,
            sidecar_statuses=sidecars,
            container_statuses=containers,
            gates=pod.gates,
            conditions=pod.written_status.get("conditions", []) + _foreign(stored.get("conditions", [])),
            exit_codes=pod.exit_codes if pod.is_reported(now) else (),
        )
        status = pod_status(view, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if status == pod.written_status and _own(stored.get("conditions", [])) == _own(status["conditions"]):
            return
        self._patch_status(pod, status)
        pod.written_status = status

    def _say_unschedulable(self, manifest: Json) -> None:
        said = [one["status"] for one in manifest["status"].get("conditions", []) if one["type"] == "PodScheduled"]
        if said == ["False"]:
            return
        message = f"0/{len(self._nodes)} nodes are available: those that are there are not for this pod."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        metadata = manifest["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._api.patch(path, {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}})

    def _patch_status(self, pod: Pod, status: Json) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self._api.patch(path, {"metadata": {"uid": pod.uid}, "status": status})

    def _delete_object(self, manifest: Json) -> None:
        metadata = manifest["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        self._api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", options)

    def _end_vanished(self, pod: Pod) -> None:
        """End a pod whose object was removed by force: its processes get no grace period."""
        pod.kill(signal.SIGKILL)
        pod.reap(STOP_TIMEOUT_S)
        self._forget(pod)

    def _forget(self, pod: Pod) -> None:
        pod.release_place()
        del self._pods[pod.uid]


OWN_CONDITIONS = frozenset({"PodScheduled", "Initialized", "ContainersReady", "Ready"})


def _foreign(conditions: list[Json]) -> list[Json]:
    return [condition for condition in conditions if condition["type"] not in OWN_CONDITIONS]


def _own(conditions: list[Json]) -> dict[str, str]:
    """Status of the conditions that this kubelet writes.

    The node controller also writes Ready when a node is lost: the kubelet corrects that when the node is back.
    """
    return {c["type"]: c["status"] for c in conditions if c["type"] in OWN_CONDITIONS}


def _named_services(services: list[Json]) -> list[NamedService]:
    return [
        NamedService(
            namespace=service["metadata"]["namespace"],
            name=service["metadata"]["name"],
            selector=tuple(sorted((service["spec"].get("selector") or {}).items())),
            publishes_not_ready=service["spec"].get("publishNotReadyAddresses", False),
            has_address=service["spec"].get("clusterIP") != "None",
        )
        for service in services
    ]
