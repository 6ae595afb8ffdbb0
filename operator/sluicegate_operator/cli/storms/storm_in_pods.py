"""A storm from pods of a Kubernetes cluster: each pod has its own address, which brokers see.

The pods run the image of the cluster's brokers and are deleted at the end, also after Ctrl-C. If a pod outlives the
command, its deadline ends it.
"""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError, is_node
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER, POD, SERVICE
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, ROLE_LABEL
from sluicegate_operator.resources.owner import is_controlled_by
from sluicegate_operator.resources.storm_pod import RUN_LABEL, StormRun, storm_pod

Json = dict[str, Any]
START_TIMEOUT_S = 120.0
SPARE_S = 30.0
"""Seconds that a pod needs before and after its storm."""
POLL_S = 0.5
ENDED = ("Succeeded", "Failed")


class StormPodError(Exception):
    """Error of a storm whose pod has no report. The message says why and what to do.

    `reports` are those of the other pods.
    """

    def __init__(self, message: str, reports: Mapping[str, Json] | None = None) -> None:
        super().__init__(message)
        self.reports = reports or {}


@dataclass(frozen=True, slots=True)
class PodStorm:
    """A storm to run in pods.

    `to` is host:port, or empty for `listener`; `options` are further arguments of the command in each pod.
    """

    namespace: str
    cluster: str | None
    listener: str
    to: str
    seconds: float
    timeout_s: float
    options: Sequence[str]
    pods: int = 1


@dataclass(slots=True)
class PodStorms:
    """One storm that runs in pods.

    `reports` are by pod, in the form of `sluicegate storm -o json`, with the pod's address.
    """

    kube: KubeClient
    storm: PodStorm
    start_timeout_s: float = START_TIMEOUT_S
    reports: dict[str, Json] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    """The reason for each pod that has ended without a report."""
    _run: str = field(default_factory=lambda: uuid4().hex[:10])

    async def run(self) -> Mapping[str, Json]:
        """Run the storm, and return the pods' reports. The pods are deleted in any case.

        Raises StormPodError, NobodyToAskError and KubeError.
        """
        broker = await self._broker()
        storm = self.storm
        manifest = storm_pod(
            StormRun(
                namespace=storm.namespace,
                run=self._run,
                image=_image(broker),
                arguments=("--to", storm.to or await self._address(broker), *storm.options),
                deadline_s=int(self.start_timeout_s + storm.seconds + storm.timeout_s + SPARE_S),
                pull_secrets=[one["name"] for one in broker["spec"].get("imagePullSecrets") or ()],
            )
        )
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            for _ in range(storm.pods):
                await self.kube.create(POD, storm.namespace, manifest)
            await self._await_end(stop)
        finally:
            await self._delete()
        return self.reports

    async def _broker(self) -> Json:
        """Return a broker's pod of the cluster."""
        storm = self.storm
        of_one = f"={storm.cluster}" if storm.cluster is not None else ""
        selector = f"{CLUSTER_LABEL}{of_one},{ROLE_LABEL}={Role.BROKER},{MANAGED_BY_LABEL}={MANAGER}"
        pods = [pod for pod in await self.kube.list(POD, storm.namespace, selector) if is_node(pod)]
        clusters = sorted({pod["metadata"]["labels"][CLUSTER_LABEL] for pod in pods})
        if not clusters:
            whose = f"cluster {storm.cluster}" if storm.cluster is not None else "any cluster"
            raise NobodyToAskError(
                f"namespace {storm.namespace} has no broker pods of {whose}; set the namespace with -n"
            )
        if len(clusters) > 1:
            raise NobodyToAskError(f"namespace {storm.namespace} has {', '.join(clusters)}; choose one with --cluster")
        return pods[0]

    async def _address(self, broker: Json) -> str:
        """Return the address of the listener's Service in the Kubernetes cluster.

        Raises NobodyToAskError if there is no such listener, or if another user's Service has its name.
        """
        cluster, namespace = broker["metadata"]["labels"][CLUSTER_LABEL], self.storm.namespace
        listeners = await self.kube.list(BROKER_LISTENER, namespace)
        own = [one for one in listeners if one["spec"]["clusterRef"]["name"] == cluster]
        for one in own:
            if one["spec"]["name"] == self.storm.listener:
                await self._check_service(one)
                return f"{one['metadata']['name']}.{namespace}.svc:{one['spec']['port']}"
        names = ", ".join(sorted(one["spec"]["name"] for one in own)) or "none"
        raise NobodyToAskError(f"cluster {cluster} has no listener {self.storm.listener}; its listeners are {names}")

    async def _check_service(self, listener: Json) -> None:
        """Raise NobodyToAskError if the Service of the listener's name does not belong to the listener."""
        meta = listener["metadata"]
        service = await self.kube.get(SERVICE, self.storm.namespace, meta["name"])
        if service is None:
            raise NobodyToAskError(
                f"listener {self.storm.listener} has no Service {meta['name']}; see the conditions of"
                f" BrokerListener {meta['name']}"
            )
        if not is_controlled_by(service, meta["uid"]):
            raise NobodyToAskError(
                f"Service {meta['name']} does not belong to listener {self.storm.listener}, so a storm would"
                f" hit another target; see the conditions of BrokerListener {meta['name']}"
            )

    async def _pods(self) -> list[Json]:
        return await self.kube.list(POD, self.storm.namespace, f"{RUN_LABEL}={self._run}")

    async def _await_end(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        start_by_s = loop.time() + self.start_timeout_s
        while not stop.is_set():
            pods = await self._pods()
            for pod in pods:
                await self._report(pod)
            ended = self.reports.keys() | self._failed.keys()
            gone = self.storm.pods - len(ended | {pod["metadata"]["name"] for pod in pods})
            if len(ended) + gone >= self.storm.pods:
                self._check(gone)
                return
            waiting = [pod for pod in pods if _phase(pod) == "Pending"]
            if waiting and loop.time() >= start_by_s:
                raise StormPodError(_why_waiting(waiting[0], self.start_timeout_s), self.reports)
            try:
                await asyncio.wait_for(stop.wait(), POLL_S)
            except TimeoutError:
                continue

    async def _report(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        if name in self.reports or name in self._failed or _phase(pod) not in ENDED:
            return
        log_text = await self.kube.text(f"{POD.path(self.storm.namespace, name)}/log")
        try:
            self.reports[name] = {**report_in(log_text, name), "address": (pod["status"] or {}).get("podIP", "")}
        except StormPodError as error:
            self._failed[name] = str(error)

    def _check(self, gone: int) -> None:
        """Raise StormPodError if pods have ended, or are `gone`, without a report."""
        problems = list(self._failed.values())
        if gone:
            problems.append(f"{gone} of {self.storm.pods} storm pods were deleted before they returned a report")
        if problems:
            raise StormPodError("; ".join(problems), self.reports)

    async def _delete(self) -> None:
        for pod in await self._pods():
            meta = pod["metadata"]
            await self.kube.delete(POD, self.storm.namespace, meta["name"], uid=meta["uid"])


def report_in(log: str, pod: str) -> Json:
    """Return the report in the log of a pod. Raises StormPodError with the log if the log has no report."""
    start = log.find("{")
    if start >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(log, start)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
    raise StormPodError(
        f"pod {pod} returned no report: {' '.join(log.split()) or 'the pod was ended before the storm began'}"
    )


def _image(broker: Json) -> str:
    """Return the image of the broker's own container, which an injected sidecar may precede."""
    containers = broker["spec"]["containers"]
    return str(next((one for one in containers if one["name"] == Role.BROKER), containers[0])["image"])


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _why_waiting(pod: Json, waited_s: float) -> str:
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        if waiting := (one.get("state") or {}).get("waiting"):
            why = ": ".join(part for part in (waiting.get("reason"), waiting.get("message")) if part)
            break
    else:
        conditions = (one for one in status.get("conditions") or () if one["status"] != "True")
        why = next((one["message"] for one in conditions if one.get("message")), "the pod is Pending")
    return f"pod {pod['metadata']['name']} did not start within {waited_s:g} s: {why}"


async def in_pods(kube: KubeClient, storm: PodStorm) -> Mapping[str, Json]:
    """Run a storm from pods and return the reports of all of them."""
    try:
        return await PodStorms(kube, storm).run()
    except KubeError as error:
        raise StormPodError(str(error)) from error
