"""Reconcile the Topics of one cluster through the admin protocol: create, grow and reconfigure topics.

Deletions are in leaving_topics.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.topic import Topic, TopicStatus
from sluicegate_operator.engine.changed_messages import ChangedMessages
from sluicegate_operator.engine.context.context import REMEMBERED_FIELDS, ReconcileContext, now
from sluicegate_operator.engine.context.snapshot import ClusterKey, Unreadable
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.leaving_topics import LeavingTopics
from sluicegate_operator.engine.telling import report_stalled, write_one_of_many
from sluicegate_operator.engine.work_queue import Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.reassigning import BrokersWanted
from sluicegate_operator.fleet.kafka.topics import (
    NOT_SEEN,
    SeenTopics,
    TooFewBrokersError,
    TopicResult,
    enforce_topic,
    observe_topics,
)
from sluicegate_operator.kafka_admin.api import batched
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, is_refusal
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import TOPIC
from sluicegate_operator.planning.status.conditions import NOT_APPLIED, not_applied_words
from sluicegate_operator.planning.status.paused import paused_status
from sluicegate_operator.planning.topics.reassignment import NO_CHANGE, ReplicasPlan, too_few_brokers
from sluicegate_operator.planning.topics.topic_status import TopicTrouble, topic_status
from sluicegate_operator.planning.topics.topics import ObservedTopic, TopicAction, TopicOutcome, judge_topics

log = logging.getLogger(__name__)

WAITING_RETRY = Retry(2.0, 10.0)
REASSIGNING_EVERY_S = 2.0
"""Seconds between reconciles during a reassignment, because no event reports its end."""
SEEN_TOGETHER = 100
"""Maximum number of topics that are read with one request, before the first of them is changed."""


class TopicReconciler:
    """Keeps topics equal to their Topic objects, and reports the result in their status."""

    def __init__(self, context: ReconcileContext, *, patience_s: float, deletion_s: float) -> None:
        """`patience_s`: seconds after which a topic is created without the brokers that are missing.

        `deletion_s`: seconds after which a failing deletion is given up.
        """
        self._context = context
        self._patience_s = patience_s
        self._leaving = LeavingTopics(context, deletion_s)
        self._refusals = LastingRefusals()
        self._waits: ChangedMessages[str] = ChangedMessages()
        """Topics that wait for brokers, by uid."""

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot, refusals = await context.gather(key, [TOPIC]), Refusals()
        await context.report_unreadable(snapshot.unreadable_of(TOPIC), refusals)
        cluster, unreadable = snapshot.cluster, _by_topic(snapshot.unreadable_of(TOPIC))
        verdicts = judge_topics(cluster, snapshot.topics, unreadable)
        if cluster is None:
            parted = await self._leaving.part_without_cluster(key, snapshot, refusals)
            for topic in snapshot.topics:
                if topic.name in verdicts:
                    await self._write(topic, topic_status(topic, verdicts[topic.name], None, now()), refusals)
            return unless_refused(refusals, None if parted else WAITING_RETRY)
        if cluster.spec.paused:
            await self._report_paused([topic for topic in snapshot.topics if topic.name in verdicts], refusals)
            return unless_refused(refusals, context.resync_s(cluster))
        if not (snapshot.topics or snapshot.leaving_topics):
            return unless_refused(refusals, context.resync_s(cluster))
        without_finalizer = await self._set_finalizers(cluster, snapshot.topics, refusals)
        pool = await context.pool(cluster)
        settled = await self._leaving.part(key, pool, snapshot, unreadable, refusals)
        brokers, reassigning = _all_brokers(cluster, pool), False
        applied = all(made is not None and made.is_applied for made in without_finalizer.values())
        for page in batched([topic for topic in snapshot.topics if topic.name in verdicts], SEEN_TOGETHER):
            accepted = {
                topic.name: topic.topic_name
                for topic in page
                if verdicts[topic.name].outcome is TopicOutcome.ACCEPTED and topic.name not in without_finalizer
            }
            seen = await _seen(pool, accepted.values())
            for topic in page:
                made = without_finalizer.get(topic.name, _Made())
                if topic.name in accepted:
                    made = None
                    with refusals.kept():
                        made = await self._enforce(cluster, pool, topic, brokers, seen)
                if made is None:
                    applied = False
                    continue
                verdict, replicas = verdicts[topic.name], made.replicas
                known = made.topic or topic
                status = topic_status(known, verdict, made.observed, now(), made.trouble, replicas)
                await self._write(known, status, refusals)
                settled = settled and made.trouble is None
                applied = applied and made.is_applied
                reassigning = reassigning or (replicas.change is not None and replicas.verdict is None)
        if applied:
            self._refusals.ended(cluster.metadata.uid)
        if not settled:
            return unless_refused(refusals, WAITING_RETRY)
        return unless_refused(refusals, REASSIGNING_EVERY_S if reassigning else context.resync_s(cluster))

    async def _report_paused(self, topics: Sequence[Topic], refusals: Refusals) -> None:
        for topic in topics:
            fields = {"topic_name": topic.topic_name}
            await self._write(topic, paused_status(topic, topic.status, now(), fields), refusals)

    async def _set_finalizers(
        self, cluster: BrokerCluster, topics: Sequence[Topic], refusals: Refusals
    ) -> "dict[str, _Made | None]":
        """Topics whose finalizer the API server refuses, by name. The other Topics do not wait for them.

        None for a refusal that may pass and has not lasted, which `refusals` keeps: the status stays as it is."""
        refused: dict[str, _Made | None] = {}
        for topic in topics:
            try:
                await self._leaving.set_finalizer(topic)
            except KubeError as error:
                refused[topic.name] = None
                with refusals.kept():
                    trouble = self._refused(cluster, error, "the finalizer cannot be changed")
                    refused[topic.name] = _Made(trouble=trouble)
        return refused

    def _refused(self, cluster: BrokerCluster, error: KubeError, what: str) -> TopicTrouble:
        """Return the trouble for a refused write of one Topic. Raises `error` if it may pass and has not lasted."""
        sentence = f"{what}: {error}"
        if self._refusals.may_pass(cluster.metadata.uid, error):
            raise error
        if not error.retriable:
            return TopicTrouble("Refused", sentence)
        return TopicTrouble("NotApplied", not_applied_words(sentence))

    async def _write(self, topic: Topic, status: TopicStatus, refusals: Refusals) -> None:
        """Write the status, and record a Warning if the Topic is Stalled now and was not before."""
        if await write_one_of_many(self._context, topic, status, refusals, without=REMEMBERED_FIELDS):
            await report_stalled(self._context, topic, status)

    async def _enforce(
        self,
        cluster: BrokerCluster,
        pool: BrokerPool | None,
        topic: Topic,
        brokers: BrokersWanted,
        seen: SeenTopics,
    ) -> "_Made":
        if pool is None:
            return _Made(trouble=TopicTrouble("WaitingForBrokers", "no broker has an address yet"))
        if topic.topic_name in seen and seen[topic.topic_name] is None and topic.spec.replicas is not None:
            few = too_few_brokers(topic.spec.replicas, brokers.expected)
            if few is not None:
                return _Made(trouble=TopicTrouble("TooFewBrokers", few.message))
        records = _StatusRecords(self._context, topic)
        made = await self._made_or_not(cluster, pool, topic, brokers, seen, records)
        return replace(made, topic=records.topic)

    async def _made_or_not(
        self,
        cluster: BrokerCluster,
        pool: BrokerPool,
        topic: Topic,
        brokers: BrokersWanted,
        seen: SeenTopics,
        records: "_StatusRecords",
    ) -> "_Made":
        try:
            result = await self._made(pool, topic, brokers, seen, records)
        except (NoBrokerError, TooFewBrokersError) as error:
            return _Made(trouble=TopicTrouble("WaitingForBrokers", str(error)))
        except KafkaAdminError as error:
            return _Made(trouble=TopicTrouble("Refused" if is_refusal(error) else "Failed", str(error)))
        except KubeError as error:
            return _Made(trouble=self._refused(cluster, error, f"{records.field} cannot be written"))
        await self._report(topic, result, records)
        unsettled = TopicTrouble("Applying", "the brokers do not show it yet")
        return _Made(result.observed, None if result.settled else unsettled, result.replicas)

    async def _made(
        self, pool: BrokerPool, topic: Topic, brokers: BrokersWanted, seen: SeenTopics, records: "_StatusRecords"
    ) -> TopicResult:
        """Bring the topic to its Topic. A new topic waits for all brokers of the spec, but at most `patience_s`."""
        uid = topic.metadata.uid
        try:
            result = await enforce_topic(pool, topic, records, brokers=brokers, create_on=brokers.expected, seen=seen)
        except TooFewBrokersError:
            waited_s = self._waits.note(uid, "waits", asyncio.get_running_loop().time())
            if waited_s is None or waited_s < self._patience_s:
                raise
            result = await enforce_topic(pool, topic, records, brokers=brokers)
        self._waits.forget(uid)
        return result

    async def _report(self, topic: Topic, result: TopicResult, records: "_StatusRecords") -> None:
        if not records.has_reported:
            await _report_changes(self._context, topic, result.found, result.changes)
        before = topic.status.replicas_change if _is_known(topic, result.found) else None
        after = result.replicas.change
        if after is not None and (before is None or before.target_replicas != after.target_replicas):
            if result.replicas.moves:
                message = f"topic {topic.topic_name} is reassigned to {after.target_replicas} replicas"
                await self._context.post(topic, "Normal", "Reassigning", message)
        elif after is None and before is not None and topic.spec.replicas is not None and result.settled:
            of_each = "1 replica" if topic.spec.replicas == 1 else f"{topic.spec.replicas} replicas"
            message = f"each partition of topic {topic.topic_name} has {of_each}"
            await self._context.post(topic, "Normal", "Reassigned", message)


class _StatusRecords:
    """Writes into the status of one Topic which keys and which topic are its own.

    `topic` is the Topic with the id that was written last. `field` is the field that was last written or refused.
    """

    def __init__(self, context: ReconcileContext, topic: Topic) -> None:
        self._context = context
        self.topic = topic
        self.field = ""
        self.has_reported = False
        """Whether an Event reports the changes of this reconcile."""

    async def remember_keys(self, managed: tuple[str, ...]) -> None:
        self.field = "status.configKeys"
        await self._context.remember(self.topic, {"configKeys": list(managed)})

    async def govern(self, topic_id: str, found: ObservedTopic | None, changes: Sequence[TopicAction]) -> None:
        """Write the topic id, and post the Event with it: the next reconcile finds the topic governed."""
        self.field = "status.topicId"
        before = self.topic
        known: dict[str, str | None] = {"topic_name": before.topic_name, "topic_id": topic_id}
        if before.status.topic_id:
            known["replicas_change"] = None
        status = before.status.model_copy(update=known)
        written = await self._context.write_status(before, status, without=REMEMBERED_FIELDS)
        self.topic = written or before
        self.has_reported = True
        await _report_changes(self._context, before, found, changes)


async def _report_changes(
    context: ReconcileContext, topic: Topic, found: ObservedTopic | None, actions: Sequence[TopicAction]
) -> None:
    changes = "; ".join(str(action) for action in actions)
    if found is None or topic.status.topic_id:
        if changes:
            await context.post(topic, "Normal", "Changed", changes)
        return
    left = {key: value for key, value in found.configs.items() if key not in (topic.spec.config or {})}
    others = ", ".join(f"{key}={value}" for key, value in sorted(left.items()))
    message = f"topic {topic.topic_name} existed already; {f'changed: {changes}' if changes else 'nothing changed'}"
    if others:
        message += f"; settings that the Topic does not have were kept: {others}"
    await context.post(topic, "Normal", "Adopted", message)


async def _seen(pool: BrokerPool | None, names: Collection[str]) -> SeenTopics:
    """Read topics with one request, by Kafka's names.

    A topic that is not in the result is read separately, and errors about it go into its status.
    """
    if pool is None or not names:
        return NOT_SEEN
    try:
        return await observe_topics(pool, names)
    except (KafkaAdminError, NoBrokerError) as error:
        log.debug("topics are read one by one: %s", error)
        return NOT_SEEN


def _is_known(topic: Topic, found: ObservedTopic | None) -> bool:
    """Return whether the status describes the topic that was found, and not an earlier topic of its name."""
    return found is not None and topic.status.topic_id in ("", found.topic_id)


@dataclass(frozen=True, slots=True)
class _Made:
    """The outcome for one Topic: its state in Kafka, why that differs from the Topic, and the change of replicas.

    `topic` is the Topic with the status that was written meanwhile; None if none was.
    """

    observed: ObservedTopic | None = None
    trouble: TopicTrouble | None = None
    replicas: ReplicasPlan = NO_CHANGE
    topic: Topic | None = None

    @property
    def is_applied(self) -> bool:
        """False while the API server refuses a write of the Topic that may pass."""
        return self.trouble is None or self.trouble.reason != NOT_APPLIED


def _all_brokers(cluster: BrokerCluster, pool: BrokerPool | None) -> BrokersWanted:
    """Return the wanted number of brokers; for external clusters, the number of registered brokers."""
    if cluster.spec.brokers is not None:
        return BrokersWanted(cluster.spec.brokers.replicas, staying_below=cluster.spec.brokers.replicas)
    return BrokersWanted(len(pool.brokers) if pool is not None else 0)


def _by_topic(unreadable: Iterable[Unreadable]) -> dict[str, str]:
    """Return unreadable objects by the name of their Kafka topic, which is readable without the rest."""
    names = {}
    for item in unreadable:
        topic_name = (item.body.get("spec") or {}).get("topicName")
        names[topic_name if isinstance(topic_name, str) else item.body["metadata"]["name"]] = item.name
    return names
