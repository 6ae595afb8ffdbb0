"""The reconciler of a BrokerCluster: applies its children, and writes the state of its pods to its status."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.broker_cluster_status import ListenerAddresses
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.schema.metadata import Status
from sluicegate_operator.engine.certificates.cluster_certificates import ClusterCertificates
from sluicegate_operator.engine.context.context import now, recheck_s
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot, UnreadableClusterError
from sluicegate_operator.engine.external_clusters import ExternalClusters
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.telling import report_certificates, report_foreign_scale, report_stalled
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.claims import own_claims
from sluicegate_operator.fleet.kubernetes.kubernetes import has_started
from sluicegate_operator.fleet.pods.failing import SetEvents, failing_nodes
from sluicegate_operator.fleet.pods.nodes import lost_nodes
from sluicegate_operator.fleet.pods.pods import NodePod, broker_count
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.settling import Settling
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.kube.cache.cached_object import UnreadableObject
from sluicegate_operator.kube.client.one_by_one import Refusals, concerns_all
from sluicegate_operator.kube.http.errors import ClaimsTakenError, KubeError, NameTakenError
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen
from sluicegate_operator.planning.clusters.cluster_access import client_listeners, version_range
from sluicegate_operator.planning.clusters.cluster_status import (
    CONTROLLERS_READY,
    CONTROLLERS_UNREACHABLE,
    cluster_status,
)
from sluicegate_operator.planning.clusters.observed_cluster import (
    AccessSeen,
    ObservedCluster,
    ObstaclesSeen,
    PodsSeen,
    SettingsSeen,
    StepsSeen,
)
from sluicegate_operator.planning.layout.cluster_layout import ClusterLayout, Role, cluster_id, plan_cluster
from sluicegate_operator.planning.layout.volumes import VolumesSeen
from sluicegate_operator.planning.rolls.lost_nodes import lost_words
from sluicegate_operator.planning.rolls.start_failures import FailureHistory, NodesNotStarting
from sluicegate_operator.planning.status.conditions import REFUSED, STALLED

log = logging.getLogger(__name__)

STARTING_RETRY = Retry(2.0, 10.0)
DEPARTED_MAX = 16
"""Maximum number of deleted BrokerClusters of one name whose claims the API server refuses to change.

With more, the oldest is dropped.
"""


@dataclass(frozen=True, slots=True)
class _Applied:
    """The result of applying the children.

    `refusal`, `name_taken` and `claims_taken` are sentences. `unreadable` names objects that the children depend on and
    that cannot be read. `not_applied` is a refusal that may pass and has lasted. `retried` is a refusal that may pass,
    of an object that no other one waits for.
    """

    refusal: str = ""
    name_taken: str = ""
    claims_taken: str = ""
    unreadable: str = ""
    not_applied: KubeError | None = None
    volumes: VolumesSeen | None = None
    retried: KubeError | None = None


class ClusterReconciler:
    """Applies a cluster's children, and writes the state of its pods to its status."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._failures: defaultdict[ClusterKey, FailureHistory] = defaultdict(FailureHistory)
        self._set_events = SetEvents()
        self._refusals = LastingRefusals()
        self._settling = Settling(context.settings.settle_s)
        self._external = ExternalClusters(context)
        self._certificates = ClusterCertificates(context, context.node_security)

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        refusals = Refusals()
        try:
            snapshot = await gather_snapshot(context.kube, key, [BROKER_LISTENER])
        except UnreadableClusterError as error:
            await context.report_unreadable([error.unreadable], refusals)
            refusals.raise_first()
            raise
        claims_retries = [await self._release_claims(snapshot.cluster)] if snapshot.cluster is not None else []
        await context.report_unreadable(snapshot.unreadable_of(BROKER_LISTENER), refusals)
        claims_retries.append(await self._let_claims_go(key, snapshot.cluster))
        again = await self._reconcile(snapshot, key)
        return unless_refused(refusals, _soonest(again, claims_retries))

    async def _reconcile(self, snapshot: Snapshot, key: ClusterKey) -> Again:
        context, cluster = self._context, snapshot.cluster
        if cluster is not None and cluster.spec.is_external:
            return await self._external.reconcile(cluster)
        if cluster is None or cluster.spec.brokers is None:
            await context.forget_cluster(key)
            self._certificates.forget(key)
            context.figures.note_certificates(key, None)
            self._failures.pop(key, None)
            self._settling.forget(key)
            return None
        progress = context.progress.of(cluster)
        if not cluster.status.cluster_id:
            wait_s = self._settling.wait_s(cluster, snapshot.listeners, asyncio.get_running_loop().time())
            if wait_s > 0:
                return wait_s
        certificates = await self._keep_certificates(cluster)
        may_apply = not cluster.spec.paused and (certificates is None or certificates.usable)
        applied = await self._apply(snapshot, cluster) if may_apply else _Applied()
        if applied.not_applied is None and applied.retried is None:
            self._refusals.ended(cluster.metadata.uid)
        all_pods = await context.fleet.pods(cluster)
        pods = [pod for pod in all_pods if not pod.deleting]
        layout = plan_cluster(cluster, snapshot.listeners, broker_count(cluster, pods))
        # A pod on a lost node stays, marked as deleted, until its kubelet answers.
        away = lost_words(await lost_nodes(context.kube, all_pods))
        seen = await self._observe(cluster, _open_to_clients(snapshot, cluster), layout, pods, applied, away, progress)
        seen = replace(seen, certificates=certificates)
        await self._write(cluster, cluster_status(cluster, seen, now()), without=["dynamicConfigKeys"])
        if applied.not_applied is not None:
            raise applied.not_applied
        if applied.retried is not None:
            applied.retried.again_within_s = STARTING_RETRY.max_s
            raise applied.retried
        if seen.obstacles.refusal:
            return REFUSED_RETRY
        if seen.volumes is not None and seen.volumes.refused:
            return REFUSED_RETRY
        if certificates is not None and certificates.problem:
            return REFUSED_RETRY
        return recheck_s(context, cluster) if _is_settled(seen) else STARTING_RETRY

    async def _keep_certificates(self, cluster: BrokerCluster) -> CertificatesSeen | None:
        """Make and renew the cluster's own certificates, and report what prevents that. Raises KubeError."""
        if cluster.spec.paused:
            return None
        context, key = self._context, (cluster.namespace, cluster.name)
        seen = await self._certificates.keep(cluster, partial(context.fleet.in_force, cluster))
        context.figures.note_certificates(key, seen)
        await report_certificates(context, cluster, seen)
        return seen

    async def _release_claims(self, cluster: BrokerCluster) -> Retry | None:
        """Remove the cluster as an owner of its claims, unless spec.storage.deleteClaims is true.

        This is the first step, also while the cluster is paused: the claims of a BrokerCluster that is deleted before
        would be deleted with it. Returns when to retry what the API server refuses; no other step waits for it.
        """
        if cluster.spec.deletes_claims:
            return None
        try:
            await own_claims(self._context.kube, cluster)
        except KubeError as error:
            if concerns_all(error):
                raise
            if self._context.is_news(str(error), "claims of living", cluster.metadata.uid):
                said = (
                    f"spec.storage.deleteClaims of BrokerCluster {cluster.name} is not true, but volume claims would"
                    f" still be deleted with it, because the API server refuses to change them: {error}"
                )
                log.warning("%s", said)
                if not error.retriable:
                    await self._context.post(cluster, "Warning", REFUSED, said)
            return STARTING_RETRY if error.retriable else REFUSED_RETRY
        return None

    async def _let_claims_go(self, key: ClusterKey, now_there: BrokerCluster | None) -> Retry | None:
        """Make deleted BrokerClusters with deleteClaims the owners of their claims, which Kubernetes then deletes.

        Returns when to retry what is not done yet; the current cluster of the name does not wait for it.
        """
        departed = self._context.departed.get(key, {})
        left: Retry | None = None
        for uid, cluster in list(departed.items()):
            retry = await self._let_claims_of_one_go(key, cluster, now_there)
            if retry is None:
                departed.pop(uid, None)
            elif left is not STARTING_RETRY:
                left = retry
        for uid in list(departed)[: max(0, len(departed) - DEPARTED_MAX)]:
            log.error(
                "the volume claims of the deleted BrokerCluster %s with uid %s are kept: delete them manually",
                key[1],
                uid,
            )
            del departed[uid]
        if not departed:
            self._context.departed.pop(key, None)
        return left

    async def _let_claims_of_one_go(
        self, key: ClusterKey, departed: BrokerCluster | UnreadableObject, now_there: BrokerCluster | None
    ) -> Retry | None:
        if isinstance(departed, UnreadableObject):
            log.warning(
                "the volume claims of the deleted cluster %s are kept, because its settings were not read: %s",
                key[1],
                departed.why,
            )
            return None
        taken_up = now_there is not None and cluster_id(now_there) == cluster_id(departed)
        if not departed.spec.deletes_claims or taken_up:
            return None
        try:
            await own_claims(self._context.kube, departed)
        except KubeError as error:
            if self._context.is_news(str(error), "claims of departed", departed.metadata.uid):
                said = f"the volume claims of the deleted BrokerCluster {key[1]} cannot be deleted with it yet: {error}"
                log.warning("%s", said)
                if not error.retriable:
                    await self._context.post(departed if now_there is None else now_there, "Warning", REFUSED, said)
            return STARTING_RETRY if error.retriable else REFUSED_RETRY
        return None

    async def _apply(self, snapshot: Snapshot, cluster: BrokerCluster) -> _Applied:
        """Apply the children. Raises KubeError for a retriable error, until it has lasted."""
        if unreadable := snapshot.unreadable_of(BROKER_LISTENER):
            # In a plan without these listeners, brokers would close their ports.
            return _Applied(unreadable="; ".join(str(item) for item in unreadable))
        try:
            nodes = await self._context.fleet.apply(cluster, snapshot.listeners)
        except NameTakenError as error:
            return _Applied(name_taken=str(error))
        except ClaimsTakenError as error:
            return _Applied(claims_taken=str(error))
        except KubeError as error:
            if self._refusals.may_pass(cluster.metadata.uid, error):
                raise
            return _Applied(not_applied=error) if error.retriable else _Applied(refusal=str(error))
        self._context.mark(Queue.ROLLS, (cluster.namespace, cluster.name))
        await report_foreign_scale(self._context, cluster, nodes.scaled_by_others)
        for sentence in nodes.uncollected:
            if self._context.is_news(sentence, "uncollected", cluster.metadata.uid, sentence):
                log.warning("cluster %s: %s", cluster.name, sentence)
        retried = nodes.retried
        lasting = retried is not None and self._refusals.lasts(cluster.metadata.uid, retried)
        return _Applied(volumes=nodes.volumes, not_applied=retried if lasting else None, retried=retried)

    async def _observe(
        self,
        cluster: BrokerCluster,
        listeners: tuple[ListenerAddresses, ...],
        layout: ClusterLayout,
        pods: list[NodePod],
        applied: _Applied,
        away: str,
        progress: ClusterProgress,
    ) -> ObservedCluster:
        brokers = [pod for pod in pods if pod.role is Role.BROKER and pod.ordinal in layout.broker_ids]
        controllers = [pod for pod in pods if pod.role is Role.CONTROLLER]
        return ObservedCluster(
            PodsSeen(
                brokers_expected=len(layout.broker_ids),
                brokers_ready=sum(pod.ready for pod in brokers),
                controllers_expected=len(layout.controller_ids),
                controllers_ready=sum(pod.ready for pod in controllers),
                broker_pods=sum(pod.role is Role.BROKER for pod in pods),
                not_starting=await self._not_starting(cluster, layout, pods),
                away=away,
            ),
            AccessSeen(
                cluster_id=layout.cluster_id if await self._is_settled_on_id(cluster, applied) else "",
                controller_id=progress.controller_id,
                silence=_silence(cluster, progress),
                unreachable=progress.unreachable,
                listeners=listeners,
                version=version_range(words.version for words in progress.described.values()),
            ),
            ObstaclesSeen(
                refusal=applied.refusal,
                not_applied="" if applied.not_applied is None else str(applied.not_applied),
                name_taken=applied.name_taken,
                claims_taken=applied.claims_taken,
                unreadable=applied.unreadable,
                gate_refused=progress.gate_refused,
            ),
            StepsSeen(
                followed_generation=min(progress.roll_generation, progress.config_generation),
                roll=progress.roll,
                no_roll=progress.no_roll,
                scale=progress.scale,
                racks=progress.racks,
            ),
            SettingsSeen(config_lagging=progress.config_lagging, config_refused=progress.config_refused),
            volumes=applied.volumes,
            damage=progress.damage,
        )

    async def _is_settled_on_id(self, cluster: BrokerCluster, applied: _Applied) -> bool:
        """Return whether the id that follows from the cluster's spec is final.

        Until its claims are read, the cluster may still take over the claims of an earlier cluster, and with them that
        cluster's id.
        """
        if applied.claims_taken:
            return False
        return applied.volumes is not None or await has_started(self._context.kube, cluster)

    async def _not_starting(
        self, cluster: BrokerCluster, layout: ClusterLayout, pods: Sequence[NodePod]
    ) -> NodesNotStarting | None:
        context = self._context
        named = context.settings.images.of_cluster(cluster)
        seen = await failing_nodes(context.kube, self._set_events, named, layout, pods)
        history, now_s = self._failures[cluster.namespace, cluster.name], asyncio.get_running_loop().time()
        generation, stalled = cluster.metadata.generation, cluster.status.condition(STALLED)
        is_stalled = stalled is not None and (stalled.status, stalled.observed_generation) == ("True", generation)
        known = stalled.reason if stalled is not None and is_stalled else ""
        attempt = cluster.metadata.uid, generation
        return history.note(attempt, seen.failing, seen.unwell, now_s, known)

    async def _write(self, cluster: BrokerCluster, status: Status, *, without: Collection[str] = ()) -> None:
        """Write the status, and post a Warning when the cluster becomes Stalled."""
        await self._context.write_status(cluster, status, without=without)
        await report_stalled(self._context, cluster, status)


def _soonest(again: Again, claims_retries: Iterable[Retry | None]) -> Again:
    """Return when to reconcile again: the earliest retry, or else `again`."""
    retries = [one for one in (again, *claims_retries) if isinstance(one, Retry)]
    return min(retries, key=lambda one: one.max_s, default=again)


def _silence(cluster: BrokerCluster, progress: ClusterProgress) -> str:
    """Return why the active controller is not known; empty if one answers.

    An operator that has just started keeps the message in the status until it has asked the controllers itself.
    """
    said = cluster.status.condition(CONTROLLERS_READY)
    if progress.controller_id is None and said is not None and said.reason == CONTROLLERS_UNREACHABLE:
        return said.message
    return progress.silence


def _open_to_clients(snapshot: Snapshot, cluster: BrokerCluster) -> tuple[ListenerAddresses, ...]:
    """Return the listeners for the status.

    While a BrokerListener cannot be read, brokers keep all their listeners open.
    """
    before = cluster.status.listeners or ()
    return before if snapshot.unreadable_of(BROKER_LISTENER) else client_listeners(snapshot.listeners, before)


def _is_settled(seen: ObservedCluster) -> bool:
    """Return whether watches and other queues report everything that can still change."""
    if seen.obstacles.name_taken or seen.obstacles.claims_taken:
        # No watch reports the deletion of an object that does not belong to the operator.
        return False
    if (
        seen.nodes.brokers_ready < seen.nodes.brokers_expected
        or seen.nodes.controllers_ready < seen.nodes.controllers_expected
    ):
        # The reason why a pod is missing is in Events, which are not watched.
        return False
    if seen.certificates is not None and not seen.certificates.settled:
        # No watch reports which certificates a node uses.
        return False
    return not (seen.volumes and seen.volumes.status.growing)
