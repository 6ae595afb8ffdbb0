"""The reconciler that follows the controller's view of each broker.

It writes BrokerRegistrations and their Events, sets the readiness gate of brokers' pods, and fences brokers whose pods
or containers are gone. It reads the view every second while anything changes, and waits for a change otherwise. This is
a separate queue, so that neither a roll nor a slow API call delays the states that clients and users rely on.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_registration import BrokerRegistration
from sluicegate_operator.api.models.parts.broker_cluster_status import NO_CONTROLLER
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.changed_messages import ChangedMessages
from sluicegate_operator.engine.context.context import now, recheck_s
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey, Unreadable
from sluicegate_operator.engine.telling import pass_over, write_one_of_many
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.controllers import fence
from sluicegate_operator.fleet.kubernetes.kubernetes import Sighting
from sluicegate_operator.fleet.node_security import NoNodeSecurityError
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.fleet.pods.controller_lease import end_term_of_gone
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.process.telemetry import FENCED_AT_ONCE
from sluicegate_operator.handlers.reconcilers.external_brokers import ExternalBrokers
from sluicegate_operator.handlers.snapshot import gather_cluster, readable
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.cache.cached_object import read_object
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.kube.http.kinds import BROKER_REGISTRATION, POD
from sluicegate_operator.planning.external.external_registrations import plan_external_registrations
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.registrations import (
    UNKNOWN,
    RegistrationPlan,
    RegistrationsPlan,
    SeenBrokers,
    gate_refused_words,
    plan_registrations,
    status_without_broker,
    unfenced_gate,
)
from sluicegate_operator.planning.registrations.unknown_registrations import plan_unknown_registrations
from sluicegate_operator.planning.status.conditions import NAME_TAKEN, REFUSED
from sluicegate_operator.resources.broker_registration import is_registration_of
from sluicegate_operator.resources.labels import READINESS_GATE
from sluicegate_operator.resources.owner import is_controlled_by

log = logging.getLogger(__name__)

MOVING_EVERY_S = 1.0
UNSEEN_RETRY = Retry(MOVING_EVERY_S, 5.0)
"""Retries while no controller reports the state of the brokers."""
UNKNOWN_AFTER_S = 60.0
"""Seconds after which the state of brokers counts as unknown.

A controller that is replaced, and one that takes over, answer sooner.
"""


@dataclass(frozen=True, slots=True)
class _GateRefusal:
    """The last of `tries` refusals to give a pod's readiness gate this status and reason; `due_s`: time of the next."""

    wanted: tuple[str, str]
    tries: int
    due_s: float
    sentence: str


class RegistrationReconciler:
    """Keeps BrokerRegistrations equal to the active controller's view, and reports lost processes to the controller."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._fenced = ByCluster[dict[int, int]](dict)
        """The last epoch of each broker that was reported to a controller as gone, by broker id."""
        self._gates = ByCluster[dict[tuple[str, str], _GateRefusal]](dict)
        """Readiness gates that the API server refuses for good, by name and uid of the pod."""
        self._external = ExternalBrokers(context)
        self._silences: ChangedMessages[str] = ChangedMessages()
        """Time since which the state of the brokers of a BrokerCluster is unknown, by uid."""

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        cluster = await gather_cluster(context.kube, key)
        if cluster is None or cluster.spec.brokers is None:
            # Kubernetes deletes the BrokerRegistrations of a deleted BrokerCluster with their owner.
            self._forget_bundled(key)
        if cluster is not None and cluster.spec.is_external:
            return await self._reconcile_external(cluster)
        if cluster is None or cluster.spec.brokers is None:
            self._external.forget(key)
            return None
        progress, uid = context.progress.of(cluster), cluster.metadata.uid
        context.figures.keep_brokers(key, uid)
        seen, refusals = await context.fleet.observe(cluster), Refusals()
        fenced = await self._fence(cluster, seen)
        await self._set_gates(cluster, seen, refusals)
        await self._mend_labels(cluster, seen, refusals)
        if seen.view.overview is None:
            await self._end_term_of_gone(cluster, refusals)
            if self._are_unknown(cluster):
                why = f"no active controller has answered for {UNKNOWN_AFTER_S:g} s: {seen.view.unseen}"
                # This runs before any write that the API server may refuse.
                self._note_controller(cluster, progress, NO_CONTROLLER, why)
                existing = await self._write_unknown(cluster, why, refusals)
                context.figures.note_brokers(key, uid, cluster.spec.brokers.replicas, [UNKNOWN] * len(existing))
            return unless_refused(refusals, UNSEEN_RETRY)
        self._silences.forget(uid)
        states = [broker.state.value for broker in seen.view.overview.brokers]
        context.figures.note_brokers(key, uid, cluster.spec.brokers.replicas, states)
        self._note_controller(cluster, progress, seen.view.overview.controller_id)
        brokers = SeenBrokers(seen.view.overview, seen.broker_pods, progress.described)
        await self._write(cluster, lambda existing: plan_registrations(cluster, existing, brokers, now()), refusals)
        if fenced or not settled(cluster, seen):
            return unless_refused(refusals, MOVING_EVERY_S)
        if context.followers.follow(key, seen.view):
            return unless_refused(refusals, recheck_s(context, cluster))
        return unless_refused(refusals, context.settings.view_every_s * random.uniform(0.8, 1.2))

    def _note_controller(
        self, cluster: BrokerCluster, progress: ClusterProgress, controller_id: int, silence: str = ""
    ) -> None:
        """Note the active controller for the status of the BrokerCluster, or why none answers."""
        if (progress.controller_id, progress.silence) != (controller_id, silence):
            progress.controller_id, progress.silence = controller_id, silence
            self._context.mark(Queue.CLUSTERS, (cluster.namespace, cluster.name))

    def _forget_bundled(self, key: ClusterKey) -> None:
        self._context.fleet.forget(*key)
        self._context.followers.forget(key)
        self._context.figures.forget_brokers(key)
        self._fenced.forget(key)
        self._gates.forget(key)

    async def _reconcile_external(self, cluster: BrokerCluster) -> Again:
        seen, refusals = await self._external.observe(cluster), Refusals()
        if seen is None:
            if not cluster.spec.paused and self._are_unknown(cluster):
                why = self._external.why_unknown(cluster)
                words = f"the brokers have not been seen for {UNKNOWN_AFTER_S:g} s: {why}"
                await self._write_unknown(cluster, words, refusals)
            return unless_refused(refusals, self._external.again(seen))
        self._silences.forget(cluster.metadata.uid)
        if not cluster.spec.paused:
            counts = await self._external.counts(cluster)
            await self._write(
                cluster,
                lambda existing: plan_external_registrations(cluster, existing, seen.brokers, counts, now()),
                refusals,
            )
        return unless_refused(refusals, self._external.again(seen))

    def _are_unknown(self, cluster: BrokerCluster) -> bool:
        """Note that the state of the brokers was not found. Returns True if that has lasted too long."""
        now_s = asyncio.get_running_loop().time()
        return (self._silences.note(cluster.metadata.uid, UNKNOWN, now_s) or 0.0) >= UNKNOWN_AFTER_S

    async def _write_unknown(
        self, cluster: BrokerCluster, why: str, refusals: Refusals
    ) -> Sequence[BrokerRegistration]:
        """Write that the brokers are Unknown. Returns the BrokerRegistrations that there are."""
        return await self._write(
            cluster, lambda existing: plan_unknown_registrations(cluster, existing, why, now()), refusals
        )

    async def _fence(self, cluster: BrokerCluster, seen: Sighting) -> bool:
        """Fence brokers that are gone. Returns whether there were any."""
        fenced = self._fenced.of(cluster)
        if not seen.fence_orders(fenced.items()) or seen.view.active is None or cluster.spec.paused:
            return False
        # A pod that the cache lacks may still exist.
        seen = await self._context.fleet.observe(cluster, fresh=True)
        orders = seen.fence_orders(fenced.items())
        if not orders or seen.view.active is None:
            return True
        try:
            security = await self._context.node_security.of(cluster)
            refused = await fence(seen.view.active, orders, self._context.may_write, security)
        except (KafkaAdminError, NoNodeSecurityError) as error:
            # Otherwise the brokers' sessions expire; the registrations are written meanwhile.
            if self._context.is_news(str(error), "fencing", cluster.metadata.uid):
                log.warning("cluster %s: brokers cannot be fenced: %s", cluster.name, error)
            return True
        for order, refusal in refused.items():
            # A broker may have registered again meanwhile. The others are gone all the same.
            if self._context.is_news(str(refusal), "fencing", cluster.metadata.uid, order.broker_id):
                log.warning("cluster %s: broker %d cannot be fenced: %s", cluster.name, order.broker_id, refusal)
        for order in (one for one in orders if one not in refused):
            fenced[order.broker_id] = order.epoch
            FENCED_AT_ONCE.inc()
            await self._context.post(cluster, "Warning", "BrokerGone", f"{order.why}: the broker was fenced at once")
        return True

    async def _end_term_of_gone(self, cluster: BrokerCluster, refusals: Refusals) -> None:
        """Release the Lease of the cluster's controllers if the process that holds it has ended."""
        if not cluster.spec.shares_journal or cluster.spec.paused:
            return
        try:
            why = await end_term_of_gone(self._context.kube, cluster)
        except KubeError as error:
            if error.retriable:
                refusals.keep(error)
                return
            said = (
                f"the Lease of a controller that no longer exists cannot be released: {error}; standbys wait until"
                " it expires"
            )
            if self._context.is_news(said, "lease", cluster.metadata.uid):
                log.warning("cluster %s: %s", cluster.name, said)
                await self._context.post(cluster, "Warning", REFUSED, said)
            return
        if why:
            await self._context.post(cluster, "Warning", "ControllerGone", f"{why}: its Lease was released")

    async def _mend_labels(self, cluster: BrokerCluster, seen: Sighting, refusals: Refusals) -> None:
        """Restore the labels of pods that have lost them.

        Their StatefulSet, Services and PodDisruptionBudget select by label.
        """
        for pod in seen.pods:
            if not pod.lost_labels or pod.deleting or cluster.spec.paused:
                continue
            try:
                fields, seen_as = {"labels": dict(pod.lost_labels)}, {"uid": pod.uid}
                await self._context.kube.patch_metadata(POD, cluster.namespace, pod.name, fields, seen_as)
            except KubeError as error:
                pass_over(self._context, pod.name, pod.uid, error, "its labels were not restored", refusals)
                continue
            labels = ", ".join(f"{key}={value}" for key, value in sorted(pod.lost_labels.items()))
            message = f"pod {pod.name} is running and had lost labels; the operator restored {labels}"
            await self._context.post(cluster, "Warning", "LabelsMended", message)

    async def _set_gates(self, cluster: BrokerCluster, seen: Sighting, refusals: Refusals) -> None:
        refused = self._gates.of(cluster)
        for gone in refused.keys() - {(pod.name, pod.uid) for pod in seen.of(Role.BROKER)}:
            del refused[gone]
        for pod in seen.of(Role.BROKER):
            verdict = unfenced_gate(seen.view.overview, pod.node_id, pod.host)
            old = pod.conditions.get(READINESS_GATE)
            if verdict is None:
                continue
            if old is not None and (old.status, old.reason) == (verdict.status, verdict.reason):
                refused.pop((pod.name, pod.uid), None)
                continue
            condition = {
                "type": READINESS_GATE,
                "status": verdict.status,
                "reason": verdict.reason,
                "message": verdict.message,
            }
            if old is None or old.status != verdict.status:
                condition["lastTransitionTime"] = f"{now():%Y-%m-%dT%H:%M:%SZ}"
            await self._set_gate(cluster, pod, condition, refusals)
        sentence = min((one.sentence for one in refused.values()), default="")
        progress = self._context.progress.of(cluster)
        if progress.gate_refused != sentence:
            progress.gate_refused = sentence
            self._context.mark(Queue.CLUSTERS, (cluster.namespace, cluster.name))
            if sentence:
                await self._context.post(cluster, "Warning", REFUSED, sentence)

    async def _set_gate(
        self, cluster: BrokerCluster, pod: NodePod, condition: dict[str, str], refusals: Refusals
    ) -> None:
        """Set the readiness gate. After a refusal for good, the next try waits as long as after other refusals."""
        refused, now_s = self._gates.of(cluster), asyncio.get_running_loop().time()
        wanted, last = (condition["status"], condition["reason"]), refused.get((pod.name, pod.uid))
        if last is not None and last.wanted == wanted and now_s < last.due_s:
            return
        try:
            await self._context.kube.set_pod_condition(cluster.namespace, pod.name, pod.uid, condition)
        except KubeError as error:
            pass_over(self._context, pod.name, pod.uid, error, "its readiness gate was not set", refusals)
            if error.retriable or error.status in (404, 409):
                return
            tries = last.tries + 1 if last is not None else 1
            due_s = now_s + REFUSED_RETRY.delay_s(tries, random.random())
            refused[pod.name, pod.uid] = _GateRefusal(wanted, tries, due_s, gate_refused_words(pod.name, str(error)))
        else:
            refused.pop((pod.name, pod.uid), None)

    async def _write(
        self,
        cluster: BrokerCluster,
        make_plan: Callable[[Sequence[BrokerRegistration]], RegistrationsPlan],
        refusals: Refusals,
    ) -> Sequence[BrokerRegistration]:
        """Write the plan that `make_plan` makes from the existing BrokerRegistrations. Returns these.

        A BrokerRegistration that is being deleted or cannot be read is skipped. The watch reports when it is gone.
        """
        kube = self._context.kube
        listed = await kube.cache.list(BROKER_REGISTRATION, cluster.namespace, cluster.name)
        own = [item for item in listed if is_registration_of(cluster, item)]
        found = [read_object(item) for item in own]
        unreadable: list[Unreadable] = []
        existing = readable(BrokerRegistration, BROKER_REGISTRATION, found, unreadable)
        await self._context.report_unreadable(unreadable, refusals)
        plan = make_plan(existing)
        by_name = {registration.name: registration for registration in existing}
        owned = {item["metadata"]["name"] for item in listed if is_controlled_by(item, cluster.metadata.uid)}
        left = {item.body["metadata"]["name"] for item in unreadable}
        left |= {item["metadata"]["name"] for item in own if item["metadata"].get("deletionTimestamp")}
        for registration in (planned for planned in plan.registrations if planned.name not in left):
            known = by_name.get(registration.name) if registration.name in owned else None
            writing = self._write_one(cluster, registration, known, refusals)
            await self._pass_over(cluster, registration.name, writing, refusals)
        for name in plan.delete:
            await self._pass_over(cluster, name, self._delete(cluster, by_name[name], refusals), refusals)
        return existing

    async def _pass_over(self, cluster: BrokerCluster, name: str, writing: Awaitable[None], refusals: Refusals) -> None:
        """Await `writing`, so that a refusal does not keep the other BrokerRegistrations from being written.

        A final refusal is reported once, and `refusals` keeps one that may pass.
        """
        try:
            await writing
        except KubeError as error:
            if error.retriable:
                refusals.keep(error)
            elif error.status != 404 and self._context.is_news(str(error), "registration", cluster.metadata.uid, name):
                log.warning("the API server refused BrokerRegistration %s: %s", name, error)
                message = f"the API server refused BrokerRegistration {name}: {error}"
                await self._context.post(cluster, "Warning", REFUSED, message)

    async def _delete(self, cluster: BrokerCluster, registration: BrokerRegistration, refusals: Refusals) -> None:
        """Delete the BrokerRegistration of a broker that is not registered any more. A refusal is in its status."""
        kube, meta = self._context.kube, registration.metadata
        seen = {"uid": meta.uid, "resource_version": meta.resource_version}
        try:
            await kube.delete(BROKER_REGISTRATION, cluster.namespace, registration.name, **seen)
        except KubeError as error:
            if not error.retriable:
                status = status_without_broker(registration, str(error), now())
                await write_one_of_many(self._context, registration, status, refusals)
            raise
        message = f"broker {registration.spec.broker_id} is not registered any more, so {registration.name} was deleted"
        await self._context.post(cluster, "Normal", "BrokerUnregistered", message)

    async def _write_one(
        self,
        cluster: BrokerCluster,
        plan: RegistrationPlan,
        existing: BrokerRegistration | None,
        refusals: Refusals,
    ) -> None:
        """Write one BrokerRegistration.

        `existing` is None if this cluster owns none: one without an owner would outlive the cluster.
        """
        kube = self._context.kube
        registration = existing
        if registration is None:
            try:
                made = await kube.apply(plan.manifest)
            except NameTakenError as taken:
                await self._context.post(cluster, "Warning", NAME_TAKEN, str(taken))
                return
            unreadable: list[Unreadable] = []
            found = readable(BrokerRegistration, BROKER_REGISTRATION, [read_object(made)], unreadable)
            await self._context.report_unreadable(unreadable, refusals)
            if not found:
                # The object is being deleted, or a CRD of another version has changed it.
                return
            registration = found[0]
        await self._context.write_status(registration, plan.status)
        if plan.events:
            # A broker that has registered again may have other tags and another version.
            self._context.mark(Queue.DESCRIPTIONS, (cluster.namespace, cluster.name))
        for event in plan.events:
            await self._context.post(registration, event.type, event.reason, event.message)
            await self._context.post(cluster, event.type, f"Broker{event.reason}", event.message)


def settled(cluster: BrokerCluster, seen: Sighting) -> bool:
    """Return whether every expected broker is Online, in sync and Ready, and no other broker exists."""
    overview, brokers = seen.view.overview, cluster.spec.brokers
    if overview is None or brokers is None:
        return False
    expected = set(range(brokers.replicas))
    ready = {pod.node_id for pod in seen.of(Role.BROKER) if pod.ready and not pod.deleting}
    in_sync = all(broker.out_of_sync == 0 for broker in overview.brokers)
    return in_sync and {broker.id for broker in overview.brokers} == overview.online == expected == ready
