"""One run of `sluicegate up`: the engine's reconcilers over manifests in files and processes, and state.json.

A changed file marks clusters in the queues that it concerns, like a watch. Limits and topics have their own queues, so
that they never wait for scale, configuration and rolls.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from sluicegate_operator.api import BrokerCluster, KafkaUser, Manifests, Resource
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.configs import ConfigReconciler
from sluicegate_operator.engine.context.context import now
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.listeners import ListenerReconciler
from sluicegate_operator.engine.observers import ObserverReconciler
from sluicegate_operator.engine.racks import RackReconciler
from sluicegate_operator.engine.rolls import RollReconciler
from sluicegate_operator.engine.topics import TopicReconciler
from sluicegate_operator.engine.users.users import UserReconciler
from sluicegate_operator.engine.work_queue import Again, Retry, WorkQueue
from sluicegate_operator.fleet.local.local import LocalFleet
from sluicegate_operator.fleet.local.local_data import LOOPBACK, DataDir, DataDirError
from sluicegate_operator.fleet.local.local_process import BackOff
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER, CONNECTION_QUOTA, OBSERVER_PLUGIN
from sluicegate_operator.local.clients import LocalClients
from sluicegate_operator.local.clusters import LocalClusters
from sluicegate_operator.local.context import LocalContext, NoConfigMaps, no_node_labels
from sluicegate_operator.local.landers import LocalLanders
from sluicegate_operator.local.limit_changes import LimitChanges, LimitCheck
from sluicegate_operator.local.objects import LocalObjects
from sluicegate_operator.local.secrets import LocalSecrets
from sluicegate_operator.local.state import ProgressLines
from sluicegate_operator.local.state_document import GoingObject, StateDocument, Work
from sluicegate_operator.planning.observers.observers import plan_observers
from sluicegate_operator.quotas.limit_changes import changed_limits
from sluicegate_operator.quotas.observing.observed import HttpPlaces, ObservedReconciler
from sluicegate_operator.quotas.plan import QuotaPlan, plan_quotas
from sluicegate_operator.quotas.reconcile import QuotaReconciler
from sluicegate_operator.quotas.statuses import QuotaStatuses

FIRST_LOOK_S = 10.0
"""Maximum seconds that `apply` waits until new clusters are settled."""
BLOCKED_TOLD_AFTER_S = 1.0
TOPIC_PATIENCE_S = 10.0
DELETION_S = 60.0

POLL_S = 0.05

Reconcile = Callable[[ClusterKey], Awaitable[Again]]


class LocalRun:
    """One run of `sluicegate up`.

    Call `apply` for each new state of the manifests, `check` often in between, and `aclose` at the end.
    """

    def __init__(self, data: DataDir, say: Callable[[str], None], back_off: BackOff | None = None) -> None:
        self._data = data
        self._say = say
        self._fleet = LocalFleet(data, say, self._processes_changed, back_off)
        self._objects = LocalObjects(data.read_remembered(), data.write_remembered)
        self._secrets = LocalSecrets(data.secrets_dir)
        self._context = LocalContext(self._objects, self._fleet, self._secrets, say, self.write_state)
        self._clients = LocalClients(data, self._context, self._secrets, say)
        self._landers = LocalLanders(data, say)
        self._limits = LimitChanges(say)
        self._observers = ObserverReconciler(self._context, NoConfigMaps())
        self._quotas = QuotaReconciler(self._context)
        self._clusters = LocalClusters(self._context, self._landers, self._limits, say)
        self._queues = self._make_queues()
        self._context.mark = self._mark
        self._context.is_due = lambda queue, key: self._queues[queue].is_due(key)
        self._lines: defaultdict[ClusterKey, ProgressLines] = defaultdict(ProgressLines)
        self._state = StateDocument(self._objects, self._fleet, self._clusters, self._context, self._secrets)
        self._first_looks: dict[Work, asyncio.Event] = {}
        self._broken: DataDirError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._open = True

    def _make_queues(self) -> dict[Queue, WorkQueue[ClusterKey]]:
        topics = TopicReconciler(self._context, patience_s=TOPIC_PATIENCE_S, deletion_s=DELETION_S)
        work: dict[Queue, Reconcile] = {
            Queue.CLUSTERS: self._clusters.reconcile,
            Queue.ROLLS: RollReconciler(self._context, BLOCKED_TOLD_AFTER_S).reconcile,
            Queue.LISTENERS: self._with_settings(ListenerReconciler(self._context).reconcile),
            Queue.USERS: self._with_settings(UserReconciler(self._context, deletion_s=DELETION_S).reconcile),
            Queue.RACKS: RackReconciler(self._context).reconcile,
            Queue.QUOTAS: self._keep_quotas,
            Queue.STATUSES: QuotaStatuses(self._context, self._quotas.governed).reconcile,
            Queue.OBSERVED: ObservedReconciler(self._context, self._quotas.governed, self._http_places).reconcile,
            Queue.TOPICS: topics.reconcile,
            Queue.CONFIGS: ConfigReconciler(self._context, no_node_labels).reconcile,
            Queue.OBSERVERS: self._keep_observers,
        }
        return {name: WorkQueue(name, self._noted(name, reconcile)) for name, reconcile in work.items()}

    def _noted(self, queue: Queue, reconcile: Reconcile) -> Reconcile:
        async def run(key: ClusterKey) -> Again:
            try:
                again = await reconcile(key)
            except DataDirError as error:
                self._broken = error
                return None
            if not isinstance(again, Retry) and not self._queues[queue].is_due(key):
                self._note_settled((queue, key))
            return again

        return run

    def _with_settings(self, reconcile: Reconcile) -> Reconcile:
        async def run(key: ClusterKey) -> Again:
            again = await reconcile(key)
            await self._clients.write(key)
            return again

        return run

    def _note_settled(self, work: Work) -> None:
        if (event := self._first_looks.get(work)) is not None:
            event.set()
        if self._state.settle(work):
            self.write_state()

    async def apply(self, manifests: Manifests, *, changed_ago_s: float = 0.0) -> None:
        """Apply the manifests, and wait for clusters that are new.

        `changed_ago_s`: seconds since the manifests changed, which count for the time until limits are enforced.
        """
        if not self._tasks:
            self._tasks = [asyncio.create_task(queue.run(), name=name) for name, queue in self._queues.items()]
        before = {key: self._quota_plan(key) for key in self._context.running}
        changes = self._objects.apply(manifests, now())
        since = datetime.now(UTC) - timedelta(seconds=changed_ago_s)
        for resource in changes.written:
            meta = resource.metadata
            self._context.first_seen.note({"metadata": {"uid": meta.uid, "generation": meta.generation}}, since)
        for resource in changes.gone:
            self._context.first_seen.forget(resource.metadata.uid)
            if isinstance(resource, KafkaUser):
                self._secrets.remove_owned(resource.namespace, resource.name, resource.metadata.uid)
        self._choose()
        began_s = asyncio.get_running_loop().time() - changed_ago_s
        # No limit is lifted in a removed cluster: its processes end, or it is external.
        for key, plan in ((key, plan) for key, plan in before.items() if key in self._clusters.chosen):
            self._limits.note(key, changed_limits(plan, self._quota_plan(key)), began_s)
        new = self._clusters.chosen - self._context.running
        looks = KINDS[BrokerCluster.__name__].queues
        self._first_looks = {(queue, key): asyncio.Event() for queue in looks if queue in self._queues for key in new}
        self._state.going += [GoingObject(resource, self._concerned(resource)) for resource in changes.gone]
        for resource in (*changes.written, *changes.gone):
            for queue, key in self._concerned(resource):
                self._queues[queue].mark(key)
        self.write_state()
        self._data.write_manifests(manifests.resources)
        await self._await_first_looks()

    def check(self) -> None:
        """Raise the error that ends the run, if there is one."""
        if self._broken is not None:
            raise self._broken
        for task in self._tasks:
            if task.done():
                task.result()

    async def aclose(self) -> None:
        self._open = False
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._context.aclose()
        finally:
            await self._fleet.aclose()
            await self._landers.aclose()
            self._data.remove_state()

    def _choose(self) -> None:
        names: dict[str, ClusterKey] = {}
        for cluster in Manifests.of(self._objects.resources).clusters:
            names.setdefault(cluster.name, (cluster.namespace, cluster.name))
        self._clusters.chosen = set(names.values())

    def _concerned(self, resource: Resource) -> set[Work]:
        """Return the queues of a change, without those that only Kubernetes has."""
        key = (resource.namespace, resource.cluster_name)
        return {(queue, key) for queue in KINDS[resource.kind].queues if queue in self._queues}

    def _mark(self, queue: Queue, key: ClusterKey) -> None:
        if queue in self._queues:
            self._queues[queue].mark(key)
        if queue == Queue.CLUSTERS:
            # Another queue has changed the progress of the cluster.
            for line in self._lines[key].news(self._context.progress.get(key) or ClusterProgress()):
                self._say(f"{key[1]}: {line}")
            self.write_state()

    async def _await_first_looks(self) -> None:
        for (queue, key), event in self._first_looks.items():
            cluster = self._objects.snapshot(key, ()).cluster
            if queue != Queue.CLUSTERS or cluster is None or cluster.spec.is_external:
                continue
            while not event.is_set():
                self.check()
                await asyncio.sleep(POLL_S)
            for line in self._state.addresses(key[1], self._data.path / key[1]):
                self._say(line)
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                for event in self._first_looks.values():
                    await event.wait()
        except TimeoutError:
            self._say("some resources are not ready yet; see `sluicegate status`")
        self._first_looks = {}

    async def _keep_quotas(self, key: ClusterKey) -> Again:
        again = await self._quotas.reconcile(key)
        governed = self._quotas.governed.get(key)
        if governed is not None and key in self._context.running and not self._queues[Queue.QUOTAS].is_due(key):
            complete, error = not isinstance(again, Retry), governed.brokers.facts.error
            cluster = self._objects.snapshot(key, ()).cluster
            pool = await self._context.pool(cluster) if cluster is not None else None
            brokers = 0 if pool is None else len(pool.brokers)
            self._limits.checked(key, LimitCheck(complete, brokers, asyncio.get_running_loop().time(), error))
            self.write_state()
        return again

    async def _http_places(self, key: ClusterKey) -> HttpPlaces:
        cluster = self._objects.snapshot(key, ()).cluster
        running = self._fleet.brokers(cluster) if cluster is not None and key in self._context.running else []
        return {one.node.key[1]: (LOOPBACK, one.node.http_port) for one in running}

    def _quota_plan(self, key: ClusterKey) -> QuotaPlan:
        snapshot = self._objects.snapshot(key, [BROKER_LISTENER, CONNECTION_QUOTA])
        return plan_quotas(snapshot.cluster, snapshot.listeners, snapshot.quotas, now())

    async def _keep_observers(self, key: ClusterKey) -> Again:
        again = await self._observers.reconcile(key)
        snapshot = self._objects.snapshot(key, [OBSERVER_PLUGIN])
        if key in self._context.running and snapshot.cluster is not None:
            brokers = [broker.broker_id for broker in await self._fleet.broker_addresses(snapshot.cluster)]
            await self._landers.keep(key[1], brokers, plan_observers(snapshot.cluster, snapshot.observers))
        return again

    def _processes_changed(self) -> None:
        for key in self._context.running:
            self._queues[Queue.CLUSTERS].mark(key)
        self.write_state()

    def write_state(self) -> None:
        """Write the state of this `sluicegate up` to state.json.

        Called whenever anything changes that `status` shows.
        """
        if self._open:
            self._data.write_state(self._state.document(self._limits.last))
