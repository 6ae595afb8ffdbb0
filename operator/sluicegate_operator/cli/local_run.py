"""One run of `sluicegate up`: applies what is desired to the local fleet, keeps it so, and tells state.json about it.

Limits and topics are kept here and never wait for scale, configuration and rolls: those are each cluster's own life.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api import ObserverPlugin
from sluicegate_operator.cli.desired import Desired, DesiredCluster, removed_topics
from sluicegate_operator.cli.local_landers import LocalLanders
from sluicegate_operator.cli.local_observers import LocalObservers
from sluicegate_operator.cli.topics import apply_topic, delete_topics
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.enforce import EnforcementResult, WantedLimits, enforce
from sluicegate_operator.fleet.local import LocalFleet
from sluicegate_operator.fleet.local_data import DataDir
from sluicegate_operator.fleet.local_life import ClusterLife
from sluicegate_operator.fleet.local_process import BackOff, Watcher
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.cluster_layout import INTERNAL, Role
from sluicegate_operator.planning.limit_changes import changed_limits

RETRY_S = 1.0
"""Until brokers that were away have answered."""
PROGRESS = ("roll", "scale", "config")
"""What a cluster's life tells `sluicegate status`."""


@dataclass(slots=True)
class _Cluster:
    """What is known of a running cluster."""

    pool: BrokerPool
    result: EnforcementResult | None = None
    topic_problems: dict[str, str | None] = field(default_factory=dict)
    due_s: float = 0.0


class LocalRun:
    """Use `apply` for each new state of the manifests, `tend` often in between, `aclose` at the end."""

    def __init__(self, data: DataDir, say: Callable[[str], None], back_off: BackOff | None = None) -> None:
        self._data = data
        self._say = say
        self._fleet = LocalFleet(data, say, self.write_state, back_off)
        self._lives: dict[str, ClusterLife] = {}
        self._desired: Desired | None = None
        self._clusters: dict[str, _Cluster] = {}
        self._observers = LocalObservers(say)
        self._landers = LocalLanders(data, say)
        self._last_change: dict[str, Any] | None = None
        self._changes = 0
        self._open = True

    async def apply(self, desired: Desired, *, changed_ago_s: float = 0.0) -> None:
        """`changed_ago_s`: how long ago the manifests changed, which counts for the time until enforced."""
        began_s = asyncio.get_running_loop().time() - changed_ago_s
        before, self._desired = self._desired, desired
        for complaint in desired.complaints:
            self._say(f"{complaint.kind} {complaint.name}: {complaint.message}")
        running = [name for name in self._clusters if name in desired.clusters]
        await asyncio.gather(*(self._change_limits(name, before, began_s) for name in running))
        await asyncio.gather(*(self._remove(name) for name in list(self._lives) if name not in desired.clusters))
        new = [name for name in desired.clusters if name not in self._lives]
        await asyncio.gather(*(self._begin(name, cluster) for name, cluster in desired.clusters.items()))
        for name, cluster in desired.clusters.items():
            if name in new:
                await self._connect(name)
                await self._enforce(name, cluster, asyncio.get_running_loop().time())
                self._say_addresses(name)
            previous = before.clusters.get(name) if before else None
            await self._apply_topics(name, previous, cluster)
            await self._keep_observers(name, cluster)
        self._data.write_manifests(desired.manifests.resources)
        self.write_state()

    async def _begin(self, name: str, cluster: DesiredCluster) -> None:
        if name in self._lives:
            self._lives[name].change(cluster.target)
            return
        life = self._lives[name] = ClusterLife(
            self._fleet, self._data, cluster.target, Watcher(self._say, self.write_state)
        )
        await life.start()

    async def _remove(self, name: str) -> None:
        await self._lives.pop(name).aclose()
        await self._drop([name])
        self._observers.forget(name)
        await self._fleet.remove(name)
        await self._landers.forget(name)

    async def tend(self) -> None:
        """Looks at clusters whose resync or retry is due, and mends what drifted."""
        if self._desired is None:
            return
        now_s = asyncio.get_running_loop().time()
        for name, cluster in self._desired.clusters.items():
            self._lives[name].check()
            if self._clusters[name].pool.brokers != await self._fleet.broker_addresses(name):
                # Brokers came or went.
                await self._connect(name)
            if self._observers.is_due(name, now_s):
                await self._keep_observers(name, cluster)
                self.write_state()
            known = self._clusters[name]
            if now_s < known.due_s:
                continue
            was_complete = known.result is not None and known.result.is_complete
            result = await self._enforce(name, cluster, now_s)
            if result.changes and was_complete:
                self._say(f"{name}: limits had been changed by hand and are set again")
            if result.is_complete and not was_complete:
                self._say(f"{name}: all limits are enforced on {_brokers(result)} brokers now")
            if any(known.topic_problems.values()):
                await self._apply_topics(name, None, cluster)
            self.write_state()

    async def aclose(self) -> None:
        self._open = False
        try:
            for life in self._lives.values():
                await life.aclose()
            await self._drop(list(self._clusters))
        finally:
            await self._fleet.aclose()
            await self._landers.aclose()
            self._data.remove_state()

    async def _connect(self, name: str) -> None:
        brokers = await self._fleet.broker_addresses(name)
        known = self._clusters.get(name)
        await self._drop([name])
        admin = AdminClient([(broker.host, broker.port) for broker in brokers], client_id="sluicegate-up")
        self._clusters[name] = _Cluster(BrokerPool(admin, brokers), None, known.topic_problems if known else {})

    async def _drop(self, names: list[str]) -> None:
        for name in names:
            if name in self._clusters:
                await self._clusters.pop(name).pool.admin.aclose()

    async def _change_limits(self, name: str, before: Desired | None, began_s: float) -> None:
        assert self._desired is not None
        cluster = self._desired.clusters[name]
        previous = before.clusters.get(name) if before else None
        phrases = changed_limits(previous.quotas if previous else None, cluster.quotas)
        if not phrases:
            return
        for phrase in phrases:
            self._say(f"{name}: {phrase}")
        result = await self._enforce(name, cluster, began_s)
        if result.took_s is not None:
            self._say(
                f"{name}: enforced on {_brokers(result)} brokers {result.took_s:.3f} s after the change, none restarted"
            )
        else:
            for sentence in _shortfalls(result):
                self._say(f"{name}: {sentence}")
        self._changes += 1
        self._last_change = {
            "number": self._changes,
            "cluster": name,
            "limits": phrases,
            "enforced_after_s": result.took_s,
        }
        self.write_state()

    async def _enforce(self, name: str, cluster: DesiredCluster, began_s: float) -> EnforcementResult:
        known = self._clusters[name]
        result = await enforce(
            known.pool, WantedLimits(cluster.quotas.desired, began_s, closing=cluster.quotas.closing)
        )
        known.result = result
        wait_s = cluster.resync_s if result.is_complete else RETRY_S
        known.due_s = asyncio.get_running_loop().time() + wait_s
        return result

    async def _keep_observers(self, name: str, cluster: DesiredCluster) -> None:
        assert self._desired is not None
        plugins, pool = self._desired.manifests.of_kind(ObserverPlugin), self._clusters[name].pool
        await self._observers.enforce(name, pool, cluster.observers, plugins, cluster.resync_s)
        await self._landers.keep(name, [broker.broker_id for broker in pool.brokers], cluster.observers)

    async def _apply_topics(self, name: str, before: DesiredCluster | None, cluster: DesiredCluster) -> None:
        known = self._clusters[name]
        problems = {}
        for topic_name, topic in cluster.topics.items():
            if (
                before is not None
                and before.topics.get(topic_name) == topic
                and known.topic_problems.get(topic.name) is None
            ):
                continue
            problem = await apply_topic(known.pool.admin, topic)
            problems[topic.name] = problem
            if problem is not None and known.topic_problems.get(topic.name) != problem:
                self._say(f"Topic {topic.name}: {problem}")
        for sentence in await delete_topics(known.pool.admin, removed_topics(before, cluster)):
            self._say(f"{name}: {sentence}")
        known.topic_problems |= problems

    def _say_addresses(self, name: str) -> None:
        nodes = self._fleet.describe(name)
        self._say(f"cluster {name}, files in {self._data.path / name}")
        for node in nodes:
            shown = [f"{key} {at}" for key, at in node["listeners"].items() if key != INTERNAL]
            self._say(
                f"  {node['role']} {node['id']}, pid {node['pid']}: {', '.join(shown)}, http://{node['http']}/metrics"
            )

    def write_state(self) -> None:
        """Called whenever something changed that `status` shows."""
        if self._desired is None or not self._open:
            return
        clusters: dict[str, Any] = {}
        names = [*self._desired.clusters, *self._fleet.clusters]
        for name in dict.fromkeys(names):
            life = self._lives.get(name)
            progress = {what: getattr(life, what).describe() for what in PROGRESS} if life else {}
            clusters[name] = {"nodes": self._fleet.describe(name), "resources": [], "progress": progress}
        for resource in self._desired.manifests.resources:
            owner = resource.cluster_name
            row = {"kind": resource.kind, "name": resource.name, **self._judge(owner, resource.kind, resource.name)}
            clusters.setdefault(owner, {"nodes": [], "resources": []})["resources"].append(row)
        self._data.write_state({"pid": os.getpid(), "clusters": clusters, "last_change": self._last_change})

    def _judge(self, owner: str, kind: str, name: str) -> dict[str, Any]:
        """Ready or not, and a sentence."""
        assert self._desired is not None
        for complaint in self._desired.complaints:
            if (complaint.kind, complaint.name) == (kind, name):
                return {"ready": False, "message": complaint.message}
        known = self._clusters.get(owner)
        if known is None:
            return {"ready": False, "message": "the cluster is starting"}
        if kind == "Topic" and name in known.topic_problems:
            problem = known.topic_problems[name]
            return {"ready": problem is None, "message": problem or ""}
        if kind == "Topic":
            return {"ready": False, "message": "not created yet"}
        if kind == "ConnectionQuota" and known.result is not None:
            shortfalls = "; ".join(_shortfalls(known.result))
            enforced = f"enforced on {_brokers(known.result)} brokers"
            return {"ready": known.result.is_complete, "message": shortfalls or enforced}
        if kind == "ObserverPlugin":
            return self._observers.judge(owner, name)
        if kind == "AuditPipeline":
            return {"ready": True, "message": "nobody runs it here: `sluicegate audit build` does"}
        if kind == "BrokerCluster":
            nodes = self._fleet.describe(owner)
            up = sum(node["pid"] is not None for node in nodes)
            brokers = sum(node["role"] == Role.BROKER for node in nodes)
            life = self._lives[owner]
            going_on = [progress.message for progress in (life.roll, life.scale, life.config) if progress.message]
            sentence = f"{brokers} brokers, {up} of {len(nodes)} processes run"
            return {"ready": up == len(nodes) and not going_on, "message": "; ".join([sentence, *going_on])}
        return {"ready": True, "message": ""}


def _brokers(result: EnforcementResult) -> str:
    return f"{result.enforced}/{len(result.brokers)}"


def _shortfalls(result: EnforcementResult) -> list[str]:
    lagging = [f"broker {broker.broker_id} is {broker.state}: {broker.detail}" for broker in result.lagging]
    return lagging + [str(failure.error) for failure in result.failures]
