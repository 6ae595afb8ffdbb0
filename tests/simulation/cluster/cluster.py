"""A complete simulated cluster: controllers, brokers, clients, and one run of it from start to judgement.

    result = simulate(seed)          # result.problems is empty, or lists what went wrong

Everything that happens follows from the seed.
"""

import asyncio
import gc
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from broker_runtime.metadata.image import MetadataImage
from tests.simulation.cluster import check, logins
from tests.simulation.cluster.admin import Admin
from tests.simulation.cluster.client import Consumer, Deletions, Lane, Producer
from tests.simulation.cluster.connection import Address, ClusterView, Key
from tests.simulation.cluster.faults import releases, schedule
from tests.simulation.cluster.faults.moments import Moments
from tests.simulation.cluster.logins import Login, Passwords
from tests.simulation.cluster.machine import previous
from tests.simulation.cluster.machine.loop import Owner, SimulationError, VirtualLoop
from tests.simulation.cluster.machine.network import Network
from tests.simulation.cluster.machine.process import Process, Surroundings, replaced_operating_system
from tests.simulation.cluster.members import group
from tests.simulation.cluster.members.committer import Committer
from tests.simulation.cluster.operator_word import Operator
from tests.simulation.cluster.pipelined import PipelinedProducer
from tests.simulation.cluster.shape import Shape, shape_of
from tests.simulation.cluster.trace import Trace
from tests.simulation.cluster.transactions import ledger

CLUSTER_ID = "simulated-cluster"
_LIMIT_S = 600.0
_RECOVERY_S = 40.0
_BROKER_KEYS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "request.timeout.ms": "4000",
    "initial.broker.registration.timeout.ms": "60000",
    "sluicegate.controlled.shutdown.timeout.ms": "6000",
    "inter.broker.listener.name": "REPLICATION",
    "offsets.topic.num.partitions": "3",
    "offsets.commit.timeout.ms": "2000",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "200",
}
_CONTROLLER_KEYS = {
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": "3000",
    "leader.imbalance.check.interval.seconds": "5",
    "metadata.log.max.record.bytes.between.snapshots": "6000",
}
_SEVERAL_CONTROLLERS_KEYS = {
    "sluicegate.controller.journal": "kubernetes",
    "sluicegate.controller.journal.name": "simulated",
    "sluicegate.controller.lease.duration.ms": "2000",
}


@dataclass(slots=True)
class Result:
    seed: int
    problems: list[str]
    trace: Trace
    virtual_s: float = 0.0
    checksum: str = ""
    figures: Mapping[str, int] = field(default_factory=dict)


class Cluster:
    """The cluster on which schedule and checker act."""

    def __init__(self, seed: int, shape: Shape, loop: VirtualLoop, trace: Trace) -> None:
        self.seed = seed
        self.shape = shape
        self.loop = loop
        self.trace = trace
        self.random = random.Random(f"{seed}/cluster")
        self.network = loop.connector = Network(loop, seed, shape.delay_factor)
        self.around = Surroundings(loop, self.network, trace.note)
        self.sessions = self.around.sessions
        self.lanes: list[Lane] = []
        self.consumers: list[Consumer] = []
        self.producers: list[Producer] = []
        self.committers: list[Committer] = []
        self.groups: list[group.Group] = []
        self.moments = Moments()
        self.ledger = ledger.Ledger(self)
        self._partitions_of_groups = group.PARTITIONS
        self.deletions: dict[Key, Deletions] = {}
        self.busy_topics: set[str] = set()
        """Topics that are being deleted or created now, or whose state is uncertain."""
        self.owners: list[Owner] = []
        self.controllers, self.brokers = self._nodes()
        self.lossy: Process | None = None
        """The broker that has lost power or has a failing disk, until every replica is in sync again."""
        self.changed = 0
        """Number of changes of a node to another release."""
        self.rolling = False
        """Whether all nodes change to another release now, one by one."""
        self.admin = Admin(self)
        self.passwords = Passwords(self)
        self.operator = Operator(self) if shape.operator_looks_s else None
        self._clients = 0
        self._topics_made: Counter[str] = Counter()

    def _nodes(self) -> tuple[Sequence[Process], Sequence[Process]]:
        """Controllers and brokers; the same processes if they are combined."""
        shape, network = self.shape, 0 if self.shape.combined else 1
        hosts = [f"10.0.{network}.{n}" for n in range(1, shape.controllers + 1)]
        quorum = ",".join(f"{host}:9093" for host in hosts)
        keys = [self._controller_keys(host, quorum) for host in hosts]
        if not shape.combined:
            controllers = [
                Process(self.around, f"controller-{n}", host, properties | {"node.id": str(100 + n)})
                for n, (host, properties) in enumerate(zip(hosts, keys, strict=True), 1)
            ]
            return controllers, [self._broker(n, quorum, {}) for n in range(1, shape.brokers + 1)]
        keys += [{}] * (shape.brokers - shape.controllers)
        nodes = [self._broker(n, quorum, properties) for n, properties in enumerate(keys, 1)]
        return nodes[: shape.controllers], nodes

    def _controller_keys(self, host: str, quorum: str) -> dict[str, str]:
        properties = _CONTROLLER_KEYS | {
            "listeners": f"CONTROLLER://{host}:9093",
            # The controller decides with it which replicas are eligible; brokers decide with theirs what is
            # acknowledged.
            "min.insync.replicas": str(self.shape.min_insync_replicas),
        }
        if self.shape.controllers > 1:
            properties |= _SEVERAL_CONTROLLERS_KEYS | {"controller.quorum.bootstrap.servers": quorum}
        return properties

    def _broker(self, number: int, quorum: str, as_controller: Mapping[str, str]) -> Process:
        host = f"10.0.0.{number}"
        listeners = [f"PLAINTEXT://{host}:9092", f"REPLICATION://{host}:9091"]
        roles = ["broker"]
        if self.shape.secured:
            listeners.append(f"SECURE://{host}:{logins.PORT}")
        if as_controller:
            listeners.append(as_controller["listeners"])
            roles.append("controller")
        properties = {
            **as_controller,
            **_BROKER_KEYS,
            "process.roles": ",".join(roles),
            "node.id": str(number),
            "cluster.id": CLUSTER_ID,
            "listeners": ",".join(listeners),
            "controller.quorum.bootstrap.servers": quorum,
            "default.replication.factor": str(self.shape.replication_factor),
            "min.insync.replicas": str(self.shape.min_insync_replicas),
            "log.segment.bytes": str(self.shape.segment_bytes),
            "log.flush.interval.messages": str(self.shape.flush_messages),
            "offsets.topic.replication.factor": str(self.shape.replication_factor),
            "transaction.state.log.replication.factor": str(self.shape.replication_factor),
            "transaction.state.log.min.isr": str(self.shape.min_insync_replicas),
            **(ledger.KEYS if self.shape.writers else {}),
            **(logins.KEYS if self.shape.secured else {}),
        }
        return Process(self.around, f"broker-{number}", host, properties)

    @property
    def processes(self) -> Sequence[Process]:
        return tuple(dict.fromkeys((*self.controllers, *self.brokers)))

    def note(self, text: str) -> None:
        self.trace.note(text)

    def active_controller(self) -> Process | None:
        for process in self.controllers:
            node = process.broker.controller if process.alive and process.broker is not None else None
            if node is not None and node.ready and node.controller.active:
                return process
        return None

    def image(self) -> MetadataImage | None:
        """The active controller's image, as an omniscient observer sees it."""
        active = self.active_controller()
        if active is None or active.broker is None or active.broker.controller is None:
            return None
        return active.broker.controller.image

    # Clients

    def client(self, name: str, *, authenticates: bool = False) -> tuple[Owner, ClusterView]:
        """A client's machine and its view; with `authenticates` it uses the listener with SASL, if there is one."""
        self._clients += 1
        owner = Owner(name, f"10.0.2.{self._clients}")
        self.owners.append(owner)
        is_secured = authenticates and self.shape.secured
        bootstrap: list[Address] = [(broker.host, logins.PORT if is_secured else 9092) for broker in self.brokers]
        login = Login(self, random.Random(f"{self.seed}/{name}/login")) if is_secured else None
        return owner, ClusterView(bootstrap, random.Random(f"{self.seed}/{name}"), login)

    def add_clients(self, topic: str, partitions: int) -> None:
        # A topic that is created again has other producers, and therefore other values.
        self._topics_made[topic] += 1
        made = self._topics_made[topic]
        name = topic if made == 1 else f"{topic}#{made}"
        for index in range(partitions):
            key = (topic, index)
            self.deletions[key] = Deletions()
            self._produce(Lane(f"idempotent-{name}-{index}", key, -1, True))
            self._produce(Lane(f"plain-{name}-{index}", key, -1, False))
            if self.shape.pipelined:
                self._produce(Lane(f"pipelined-{name}-{index}", key, -1, True), PipelinedProducer)
            self._consume(key)
        self._produce(Lane(f"leader-only-{name}-0", (topic, 0), 1, False))
        self._produce(Lane(f"unanswered-{name}-0", (topic, 0), 0, False))

    def lanes_of(self, key: Key) -> Sequence[Lane]:
        return [lane for lane in self.lanes if lane.key == key and not lane.abandoned]

    def has_clients(self, topic: str) -> bool:
        return any(lane.key[0] == topic and not lane.abandoned for lane in self.lanes)

    def abandon_clients(self, topic: str) -> None:
        """End the clients of a topic that is about to be deleted; their acknowledgements no longer count."""
        for producer in self.producers:
            if producer.lane.key[0] == topic:
                producer.stopped = producer.lane.abandoned = True
        for consumer in self.consumers:
            if consumer.key[0] == topic:
                consumer.stopped = True
        self.consumers = [consumer for consumer in self.consumers if consumer.key[0] != topic]

    def topic_is_deleted(self, topic: str) -> None:
        """Forget the deletions of a topic that is certainly deleted: its records are no longer judged."""
        for key in [key for key in self.deletions if key[0] == topic]:
            del self.deletions[key]

    def _produce(self, lane: Lane, kind: type[Producer] = Producer) -> None:
        owner, view = self.client(lane.name, authenticates=True)
        producer = kind(lane, view, self.around.mistake, self.around.wall_ms, self.shape.pause_max_s)
        self.lanes.append(lane)
        self.producers.append(producer)
        self.run_as(owner, producer.run())

    def _consume(self, key: Key) -> None:
        owner, view = self.client(f"consumer-{key[0]}-{key[1]}", authenticates=True)
        consumer = Consumer(key, view, self.deletions[key], self.around.mistake)
        self.consumers.append(consumer)
        self.run_as(owner, consumer.run())

    def partitions_of_groups(self) -> int:
        """Number of partitions of the groups' topic, as a client that asks for its metadata knows it."""
        image = self.image()
        topic = None if image is None else image.topics.get(group.TOPIC)
        if topic is not None:
            self._partitions_of_groups = max(len(topic.partitions), self._partitions_of_groups)
        return self._partitions_of_groups

    async def _add_groups(self) -> bool:
        if self.shape.groups and not await self.admin.has_topic(group.TOPIC, group.PARTITIONS):
            return False
        self.groups = [group.Group(self, kind) for kind in self.shape.groups]
        for each in self.groups:
            each.start()
        for number in range(self.shape.committers):
            owner, view = self.client(f"committer-{number}")
            committer = Committer(f"commits-{number}", "orders", view, self.around.mistake)
            self.committers.append(committer)
            self.run_as(owner, committer.run())
        return True

    def run_as(self, owner: Owner, work: Any) -> None:
        task = self.loop.create_task(work, name=owner.name, context=owner.context)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.trace.raised(error)
            self.around.mistake(f"{task.get_name()} ended by {error!r}")

    # A run

    async def until(self, what: str, seen: Callable[[], bool | str], timeout_s: float) -> bool:
        """Wait until `seen` returns True; otherwise it returns what is missing.

        False and a mistake if that takes too long.
        """
        end_s = self.loop.time() + timeout_s
        missing: bool | str = False
        while self.loop.time() < end_s:
            missing = seen()
            if missing is True:
                return True
            await asyncio.sleep(0.1)
        self.around.mistake(f"{what} within {timeout_s:g} s: {missing or 'no'}")
        return False

    async def _prepare(self) -> bool:
        """Create what clients need. False and a mistake if that is impossible."""
        if not await self.admin.has_topic("orders", self.shape.partitions):
            return False
        if not await self.ledger.prepare():
            return False
        return not self.shape.secured or await self.passwords.create()

    async def _start(self) -> bool:
        if self.shape.mixed:
            releases.begin(self)
        for process in self.processes:
            process.start()
        return await self.until("the cluster starts", lambda: check.everybody_serves(self), 30)

    async def run(self) -> None:
        if not await self._start():
            return
        if not await self._prepare():
            return
        self.add_clients("orders", self.shape.partitions)
        if not await self._add_groups():
            return
        self.ledger.start()
        await asyncio.sleep(1.0)
        if self.operator is not None:
            self.run_as(self.operator.owner, self.operator.run())
        await schedule.run(self)
        self.note("everything heals")
        if self.operator is not None:
            self.operator.stopped = True
        schedule.heal(self)
        supervisor = asyncio.ensure_future(schedule.keep_alive(self))
        if self.shape.mixed:
            await releases.end(self)
        for producer in self.producers:
            producer.stopped = True
        for committer in self.committers:
            committer.stopped = True
        for each in self.groups:
            each.settle()
        self.ledger.stop()
        try:
            await asyncio.sleep(2.0)
            if await self.until("the cluster is whole again", lambda: check.is_whole(self), _RECOVERY_S):
                await check.judge(self)
                if self.shape.secured:
                    await logins.judge(self)
        finally:
            supervisor.cancel()


def simulate(
    seed: int,
    shape: Shape | None = None,
    *,
    trace: Trace | None = None,
    prepare: Callable[[Cluster], None] | None = None,
) -> Result:
    """Run one simulated cluster; `prepare` may change it before it starts."""
    trace = trace or Trace()
    shape = shape or shape_of(seed)
    loop = VirtualLoop(seed, shape.faults_s + _LIMIT_S)
    trace.begin(loop)
    result = Result(seed, [], trace)
    try:
        asyncio.set_event_loop(loop)
        cluster = Cluster(seed, shape, loop, trace)
        loop.set_exception_handler(lambda _, context: _unhandled(cluster, context))
        if prepare is not None:
            prepare(cluster)
        with ExitStack() as replaced:
            replaced.enter_context(replaced_operating_system(cluster.around, CLUSTER_ID, seed))
            if shape.mixed:
                replaced.enter_context(previous.replaced(cluster.around, CLUSTER_ID, seed))
            try:
                loop.run_until_complete(cluster.run())
            except SimulationError as error:
                cluster.around.mistakes.append(str(error))
            except Exception as error:  # noqa: BLE001 - with the seed and the trace it is told like any other mistake
                trace.raised(error)
                cluster.around.mistakes.append(repr(error))
            finally:
                result.virtual_s = loop.time()
                result.problems = list(cluster.around.mistakes)
                result.checksum = f"{cluster.network.figures.checksum:08x}-{cluster.network.figures.chunks}"
                result.figures = check.figures(cluster)
                _end(cluster, loop)
    finally:
        trace.end()
        asyncio.set_event_loop(None)
        loop.close()
    return result


def _unhandled(cluster: Cluster, context: Mapping[str, Any]) -> None:
    error = context.get("exception")
    if error is not None:
        cluster.trace.raised(error)
    cluster.around.mistake(f"{context.get('message')}: {error!r}")


def _end(cluster: Cluster, loop: VirtualLoop) -> None:
    """Let every coroutine end after the judgement, also those of dead processes, so that the collector gets none."""
    logging.disable(logging.CRITICAL)
    cluster.trace.over()
    try:
        loop.set_exception_handler(lambda *_: None)
        owners = [*cluster.around.by_owner, *cluster.owners]
        for _ in range(20):
            for owner in owners:
                owner.alive = True
                owner.paused = False
                loop.resume(owner)
            # A task that has not begun must begin, or else the coroutine that it awaits is never awaited.
            for _ in range(5):
                loop.run_until_complete(asyncio.sleep(0))
            tasks = asyncio.all_tasks(loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        gc.collect()
    finally:
        logging.disable(logging.NOTSET)
