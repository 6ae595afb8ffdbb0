"""Topics of one cluster: created, grown and reconfigured through the admin protocol, and deleted where they say so."""

import logging
from collections.abc import Iterable, Mapping

from sluicegate_operator.api.topic import Topic
from sluicegate_operator.fleet.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.topics import delete_topic, enforce_topic, observe_topic
from sluicegate_operator.handlers.context import Context, now
from sluicegate_operator.handlers.snapshot import ClusterKey, Unreadable, gather_snapshot
from sluicegate_operator.handlers.work_queue import Again, Retry
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.kinds import TOPIC
from sluicegate_operator.planning.topic_status import topic_status
from sluicegate_operator.planning.topics import ObservedTopic, TopicOutcome, deletion_actions, judge_topics

log = logging.getLogger(__name__)

WAITING_RETRY = Retry(2.0, 10.0)


class TopicReconciler:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._deleted: dict[ClusterKey, dict[str, Topic]] = {}
        """Topics whose objects are gone and that Kafka may still have; forgotten when the operator stops."""

    def note_deleted(self, key: ClusterKey, topic: Topic) -> None:
        self._deleted.setdefault(key, {})[topic.name] = topic

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key)
        await context.say_unreadable(snapshot.unreadable_of(TOPIC))
        cluster, unreadable = snapshot.cluster, _by_topic(snapshot.unreadable_of(TOPIC))
        verdicts = judge_topics(cluster, snapshot.topics, unreadable)
        if cluster is None or cluster.spec.brokers is None:
            for topic in snapshot.topics:
                if topic.name in verdicts:
                    await context.write_status(topic, topic_status(topic, verdicts[topic.name], None, now()))
            return None
        if cluster.spec.paused or not (snapshot.topics or self._deleted.get(key)):
            return context.resync_s(cluster)
        pool = await context.pool(cluster)
        settled = pool is not None and await self._delete(key, pool, snapshot.topics, unreadable)
        for topic in snapshot.topics:
            verdict = verdicts.get(topic.name)
            if verdict is None:
                continue
            observed, error = None, ""
            if verdict.outcome is TopicOutcome.ACCEPTED:
                observed, error = await self._enforce(pool, topic)
            await context.write_status(topic, topic_status(topic, verdict, observed, now(), error))
            settled = settled and not error
        return context.resync_s(cluster) if settled else WAITING_RETRY

    async def _enforce(self, pool: BrokerPool | None, topic: Topic) -> tuple[ObservedTopic | None, str]:
        """What Kafka has now, and why it is not what the Topic says where it could not be made so."""
        if pool is None:
            return None, "no broker has an address yet"
        try:
            result = await enforce_topic(pool, topic)
        except (KafkaAdminError, NoBrokerError) as error:
            return None, str(error)
        if result.changes:
            changes = "; ".join(str(change) for change in result.changes)
            await self._context.post(topic, "Normal", "Changed", changes)
        return result.observed, "" if result.settled else "the brokers do not show it yet"

    async def _delete(
        self, key: ClusterKey, pool: BrokerPool, topics: tuple[Topic, ...], unreadable: Mapping[str, str]
    ) -> bool:
        """Whether nothing is left to delete but what an object names that cannot be read."""
        waiting = self._deleted.get(key, {})
        for name, topic in list(waiting.items()):
            if topic.topic_name in unreadable:
                continue
            try:
                observed = await observe_topic(pool, topic.topic_name)
                if deletion_actions(topic, observed, topics):
                    await delete_topic(pool, topic.topic_name)
            except (KafkaAdminError, NoBrokerError) as error:
                log.warning("topic %s cannot be deleted yet: %s", topic.topic_name, error)
                return False
            del waiting[name]
        return True


def _by_topic(unreadable: Iterable[Unreadable]) -> dict[str, str]:
    """Objects by the name of Kafka's topic, which is read without the rest."""
    names = {}
    for item in unreadable:
        said = (item.body.get("spec") or {}).get("topicName")
        names[said if isinstance(said, str) else item.body["metadata"]["name"]] = item.name
    return names
