"""The status of a Topic, derived from its verdict and from the topic in Kafka."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sluicegate_operator.api.models.replica_numbers import MIN_IN_SYNC, min_in_sync
from sluicegate_operator.api.models.topic import ReplicasChange, Topic, TopicStatus
from sluicegate_operator.planning.status.conditions import (
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.planning.topics.reassignment import NO_CHANGE, ReplicasPlan
from sluicegate_operator.planning.topics.topics import (
    ObservedTopic,
    TopicOutcome,
    TopicVerdict,
    diff_topic,
    judge_observed,
)


@dataclass(frozen=True, slots=True)
class TopicTrouble:
    """The reason why a topic differs from its Topic. `reason` is that of the conditions."""

    reason: Literal["WaitingForBrokers", "Refused", "Failed", "Applying", "TooFewBrokers", "NotApplied"]
    message: str

    @property
    def needs_a_person(self) -> bool:
        return self.reason in ("Refused", "TooFewBrokers")


def topic_status(
    topic: Topic,
    verdict: TopicVerdict,
    observed: ObservedTopic | None,
    now: datetime,
    trouble: TopicTrouble | None = None,
    replicas: ReplicasPlan = NO_CHANGE,
) -> TopicStatus:
    """Return the status of a Topic without configKeys, which are written separately.

    `verdict` is that of `judge_topics`. While the topic is not observed, the progress of a reassignment stays. The id
    also stays during trouble: the Topic has it since it created or adopted the topic, and only then may delete it. The
    numbers of partitions and replicas stay while brokers do not answer.
    """
    old = topic.status
    progress = _progress(topic, verdict, observed, trouble, replicas)
    accepted = verdict.outcome is TopicOutcome.ACCEPTED
    seen = accepted and observed is not None
    known = observed or (old if trouble is not None else TopicStatus()) if accepted else TopicStatus()
    return TopicStatus(
        observed_generation=observed_generation(topic, old, progress),
        conditions=conditions(topic, old, progress.findings, now),
        topic_name=topic.topic_name,
        topic_id=observed.topic_id if seen and observed and trouble is None else old.topic_id,
        partitions=known.partitions,
        replicas=known.replicas,
        replicas_change=replicas.change if seen else old.replicas_change,
    )


def _progress(
    topic: Topic,
    verdict: TopicVerdict,
    observed: ObservedTopic | None,
    trouble: TopicTrouble | None,
    replicas: ReplicasPlan,
) -> Progress:
    if verdict.outcome is not TopicOutcome.ACCEPTED:
        return stalled(verdict.outcome.value, verdict.message)
    if trouble is not None:
        return (stalled if trouble.needs_a_person else working)(trouble.reason, trouble.message)
    blocked = judge_observed(topic, observed)
    if blocked.outcome is not TopicOutcome.ACCEPTED:
        return stalled(blocked.outcome.value, blocked.message)
    if observed is None:
        return working("Creating", "the topic does not exist yet")
    if diff_topic(topic, observed, topic.status.config_keys):
        return working("Altering", "the topic differs from spec")
    if replicas.verdict is not None:
        return stalled(replicas.verdict.outcome.value, replicas.verdict.message)
    if replicas.change is not None:
        return working("Reassigning", _reassigning(replicas.change, replicas.waits))
    counted = f"{observed.partitions} partitions, {observed.replicas} replicas"
    if min_in_sync(topic) > observed.replicas:
        counted += f"; {MIN_IN_SYNC} is {min_in_sync(topic)} and counts as {observed.replicas}, the number of replicas"
    return ready("Applied", counted)


def _reassigning(change: ReplicasChange, waits: str) -> str:
    of_each = "1 replica" if change.target_replicas == 1 else f"{change.target_replicas} replicas"
    sentence = f"{change.partitions} partitions have {of_each}; partitions in reassignment: {change.moving}"
    return f"{sentence}; {waits}" if waits else sentence
