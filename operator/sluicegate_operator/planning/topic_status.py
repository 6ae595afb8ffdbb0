"""The status of a Topic, from its verdict and from what Kafka says about the topic."""

from datetime import datetime

from sluicegate_operator.api.topic import Topic, TopicStatus
from sluicegate_operator.planning.conditions import (
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.planning.topics import ObservedTopic, TopicOutcome, TopicVerdict, diff_topic, judge_observed


def topic_status(
    topic: Topic, verdict: TopicVerdict, observed: ObservedTopic | None, now: datetime, error: str = ""
) -> TopicStatus:
    """Without configKeys, which are written on their own. `verdict` is that of `judge_topics`; `error` is why Kafka
    refused or could not be asked."""
    old = topic.status
    progress = _progress(topic, verdict, observed, error)
    seen = verdict.outcome is TopicOutcome.ACCEPTED and observed is not None
    return TopicStatus(
        observed_generation=observed_generation(topic, old, progress),
        conditions=conditions(topic, old, progress.findings, now),
        topic_name=topic.topic_name,
        topic_id=observed.topic_id if seen and observed else "",
        partitions=observed.partitions if seen and observed else 0,
        replicas=observed.replicas if seen and observed else 0,
    )


def _progress(topic: Topic, verdict: TopicVerdict, observed: ObservedTopic | None, error: str) -> Progress:
    if verdict.outcome is not TopicOutcome.ACCEPTED:
        return stalled(verdict.outcome.value, verdict.message)
    if error:
        return working("Failed", error)
    blocked = judge_observed(topic, observed)
    if blocked.outcome is not TopicOutcome.ACCEPTED:
        return stalled(blocked.outcome.value, blocked.message)
    if observed is None:
        return working("Creating", "the topic is not there yet")
    if diff_topic(topic, observed, topic.status.config_keys):
        return working("Altering", "the topic differs from what the Topic says")
    return ready("Applied", f"{observed.partitions} partitions, {observed.replicas} replicas")
