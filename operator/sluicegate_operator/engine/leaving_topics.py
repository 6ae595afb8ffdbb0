"""Delete topics whose Topic had deletionPolicy Delete: a finalizer keeps the object until Kafka's topic is gone.

No object waits forever. If the BrokerCluster is gone, no broker can be asked. After a deadline the topic is left
behind, with a Warning. The deadline is measured by this operator's clock, from its first try.
"""

import asyncio
import logging
from collections.abc import Mapping

from sluicegate_operator.api.models.topic import FINALIZER, Topic
from sluicegate_operator.engine.context.context import EventType, ReconcileContext, reference
from sluicegate_operator.engine.context.snapshot import ClusterKey, LeavingTopic, Snapshot
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.topics import delete_topic, observe_topic
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, refusal
from sluicegate_operator.planning.topics.topics import why_another_topic, why_kept, why_not_governed

log = logging.getLogger(__name__)


class LeavingTopics:
    """The finalizers of Topics.

    They stay until the topic is deleted, or until it is certain that it never will be.
    """

    def __init__(self, context: ReconcileContext, deletion_s: float) -> None:
        self._context = context
        self._deletion_s = deletion_s
        self._since_s: dict[ClusterKey, dict[str, float]] = {}
        """Time of the first failed try for a Topic, by uid."""

    async def set_finalizer(self, topic: Topic) -> None:
        """Set the finalizer before the topic exists, and only while deleting the Topic deletes the topic."""
        finalizers = [found for found in topic.metadata.finalizers if found != FINALIZER]
        if topic.spec.deletion_policy == "Delete":
            finalizers.append(FINALIZER)
        if set(finalizers) != set(topic.metadata.finalizers):
            await self._context.set_finalizers(reference(topic), finalizers)

    async def part_without_cluster(self, key: ClusterKey, snapshot: Snapshot, refusals: Refusals) -> bool:
        """Let deleted Topics of a missing cluster go, by removing their finalizers.

        Return whether none of them waits for its finalizer's removal.

        `refusals` keeps refusals that may pass.
        """
        self._since_s.pop(key, None)
        why, parted = f"BrokerCluster {key[1]} does not exist any more, or is being deleted", True
        for leaving in snapshot.leaving_topics:
            left = "refused"
            with refusals.kept():
                left = await refusal(self._let_go(leaving, "Normal", "TopicKept", why))
            parted = parted and not left
        return parted

    async def part(
        self,
        key: ClusterKey,
        pool: BrokerPool | None,
        snapshot: Snapshot,
        unreadable: Mapping[str, str],
        refusals: Refusals,
    ) -> bool:
        """Let deleted Topics go: delete their topics in Kafka if the Topics say so, and remove the finalizers.

        Return whether none of them waits for its topic's deletion.

        `unreadable` are Topics that cannot be read, and `refusals` keeps refusals that may pass.
        """
        now_s, waiting = asyncio.get_running_loop().time(), {}
        tried = self._since_s.get(key, {})
        for leaving in snapshot.leaving_topics:
            since_s = tried.get(leaving.uid, now_s)
            overdue = now_s - since_s >= self._deletion_s
            problem: str | None = None
            with refusals.kept():
                problem = await refusal(self._part_with(pool, leaving, snapshot, unreadable, overdue=overdue))
            if problem and self._context.is_news(problem, "leaving", leaving.uid):
                log.warning("Topic %s cannot be released yet: %s", leaving.name, problem)
            if problem != "":
                waiting[leaving.uid] = since_s
        self._since_s[key] = waiting
        if not waiting:
            del self._since_s[key]
        return not waiting

    async def _part_with(
        self,
        pool: BrokerPool | None,
        leaving: LeavingTopic,
        snapshot: Snapshot,
        unreadable: Mapping[str, str],
        *,
        overdue: bool,
    ) -> str:
        """Return why the Topic still waits; empty after it was released, even if its topic was left behind."""
        problem = await self._why_waiting(pool, leaving, snapshot, unreadable)
        if problem and overdue:
            await self._leave_behind(leaving, problem)
            return ""
        return problem

    async def _why_waiting(
        self, pool: BrokerPool | None, leaving: LeavingTopic, snapshot: Snapshot, unreadable: Mapping[str, str]
    ) -> str:
        topic = leaving.topic
        if topic is None:
            return f"the Topic cannot be read: {leaving.why}"
        if kept := why_kept(topic, snapshot.topics):
            await self._let_go(leaving, "Normal", "TopicKept", kept)
            return ""
        if not_governed := why_not_governed(topic):
            await self._let_go(leaving, "Warning", "TopicKept", not_governed)
            return ""
        if topic.topic_name in unreadable:
            return f"{unreadable[topic.topic_name]} names topic {topic.topic_name}, too, and cannot be read"
        if pool is None:
            return "no broker has an address yet"
        try:
            return await self._delete(pool, leaving, topic)
        except (KafkaAdminError, NoBrokerError) as error:
            return str(error)

    async def _delete(self, pool: BrokerPool, leaving: LeavingTopic, topic: Topic) -> str:
        observed = await observe_topic(pool, topic.topic_name)
        if another := why_another_topic(topic, observed):
            await self._let_go(leaving, "Warning", "TopicKept", another)
            return ""
        if observed is not None and not await delete_topic(pool, topic.topic_name, topic.status.topic_id):
            return f"the brokers still show topic {topic.topic_name}"
        said = f"topic {topic.topic_name} and its records were deleted, because deletionPolicy is Delete"
        await self._let_go(leaving, "Normal", "TopicDeleted", said)
        return ""

    async def _leave_behind(self, leaving: LeavingTopic, problem: str) -> None:
        message = (
            f"the topic stays on the brokers, because it could not be deleted within {self._deletion_s:g} s"
            f" ({problem}); delete it with Kafka's tools"
        )
        await self._let_go(leaving, "Warning", "TopicLeftBehind", message)

    async def _let_go(self, leaving: LeavingTopic, type_: EventType, reason: str, message: str) -> None:
        log.info("Topic %s is released: %s", leaving.name, message)
        await self._context.events.record(leaving.body, type_, reason, message)
        left = [found for found in leaving.body["metadata"]["finalizers"] if found != FINALIZER]
        try:
            await self._context.set_finalizers(leaving.body, left)
        except KubeError as error:
            if error.status != 404:
                raise
