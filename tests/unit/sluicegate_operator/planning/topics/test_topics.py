"""Topics: verdicts, the difference to Kafka, deletion and status."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api import BrokerCluster, Topic, parse_resource
from sluicegate_operator.planning.topics.topic_status import TopicTrouble, topic_status
from sluicegate_operator.planning.topics.topics import (
    ACCEPTED,
    AddPartitions,
    AlterTopicConfigs,
    CreateTopic,
    ObservedTopic,
    TopicAction,
    TopicOutcome,
    TopicVerdict,
    diff_topic,
    judge_observed,
    judge_topics,
    managed_keys,
)
from tests.support.manifests.bad_manifests import cluster, topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_cluster() -> BrokerCluster:
    parsed = parse_resource(cluster())
    assert isinstance(parsed, BrokerCluster)
    return parsed


def a_topic(name: str = "orders", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Topic:
    document = topic(name, **spec)
    metadata = {"name": name, "creationTimestamp": created, "generation": 3}
    parsed = parse_resource(document | {"metadata": metadata})
    assert isinstance(parsed, Topic)
    return parsed


def seen(**changes: Any) -> ObservedTopic:
    known: dict[str, Any] = {"topic_id": "id", "partitions": 6, "replicas": 1}
    return ObservedTopic(**(known | changes))


@pytest.mark.parametrize(
    ("spec", "observed", "actions"),
    [
        pytest.param({}, seen(), [], id="a topic that is as it should be needs nothing"),
        pytest.param(
            {"config": {"retention.ms": "1"}, "replicas": 2},
            None,
            [CreateTopic("orders", 6, 2, {"retention.ms": "1"})],
            id="a missing topic is created with its configuration",
        ),
        pytest.param({"topicName": "Other"}, None, [CreateTopic("Other", 6, None, {})], id="topicName is Kafka's name"),
        pytest.param({}, seen(partitions=2), [AddPartitions("orders", 6)], id="partitions grow"),
        pytest.param({}, seen(partitions=9), [], id="partitions cannot shrink, so nothing is tried"),
        pytest.param(
            {"config": {"retention.ms": "1"}},
            seen(configs={"retention.ms": "2", "segment.ms": "5"}),
            [AlterTopicConfigs("orders", {"retention.ms": "1"}, ("segment.ms",))],
            id="another value is mended and a key that nobody asked for is taken away",
        ),
        pytest.param(
            {"config": {"retention.ms": "1"}},
            seen(partitions=1),
            [AddPartitions("orders", 6), AlterTopicConfigs("orders", {"retention.ms": "1"})],
            id="partitions and configuration together",
        ),
    ],
)
def test_the_difference(spec: dict[str, Any], observed: ObservedTopic | None, actions: list[TopicAction]) -> None:
    assert diff_topic(a_topic(**spec), observed, ALL) == actions


ALL = ("flush.ms", "retention.ms", "segment.ms")
KEYS = st.sampled_from(ALL)
CONFIGS = st.dictionaries(KEYS, st.integers(1, 3).map(str))


def applied(actions: list[TopicAction], observed: ObservedTopic | None) -> ObservedTopic | None:
    for action in actions:
        if isinstance(action, CreateTopic):
            observed = ObservedTopic("new", action.partitions, action.replicas or 1, action.configs)
        assert observed is not None
        if isinstance(action, AddPartitions):
            observed = ObservedTopic(observed.topic_id, action.total, observed.replicas, observed.configs)
        if isinstance(action, AlterTopicConfigs):
            kept = {key: value for key, value in observed.configs.items() if key not in action.delete}
            observed = ObservedTopic(observed.topic_id, observed.partitions, observed.replicas, kept | dict(action.set))
    return observed


@given(
    CONFIGS,
    st.integers(1, 6),
    st.none() | st.builds(ObservedTopic, st.just("id"), st.integers(1, 6), st.just(1), CONFIGS),
    st.sets(KEYS),
)
def test_applying_the_difference_reaches_what_is_desired_and_leaves_the_rest(
    config: dict[str, str], fewer: int, observed: ObservedTopic | None, managed: set[str]
) -> None:
    wanted = a_topic(config=config, partitions=6 if fewer < 6 else 7)
    after = applied(diff_topic(wanted, observed, managed), observed)
    assert after is not None
    assert diff_topic(wanted, after, managed_keys(wanted, observed, managed)) == []
    others = {} if observed is None else {k: v for k, v in observed.configs.items() if k not in managed}
    assert (after.partitions, dict(after.configs)) == (wanted.spec.partitions, others | config)
    assert managed_keys(wanted, after, managed) == tuple(sorted(config))


def test_the_oldest_of_two_topics_of_one_name_rules() -> None:
    verdicts = judge_topics(
        a_cluster(),
        [a_topic("a", topicName="orders"), a_topic("b", created="2025-01-01T00:00:00Z", topicName="orders")],
    )
    assert verdicts["b"] == ACCEPTED
    assert verdicts["a"].outcome is TopicOutcome.CONFLICTED
    assert "Topic b" in verdicts["a"].message


def test_a_topic_of_a_missing_cluster_is_told_its_name() -> None:
    verdict = judge_topics(None, [a_topic()])["orders"]
    assert verdict.outcome is TopicOutcome.CLUSTER_MISSING
    assert "BrokerCluster shop" in verdict.message


def test_topics_of_other_clusters_are_left_out() -> None:
    assert judge_topics(a_cluster(), [a_topic(clusterRef={"name": "bank"})]) == {}


@pytest.mark.parametrize(
    ("observed", "outcome", "words"),
    [
        (seen(partitions=9), TopicOutcome.TOO_MANY_PARTITIONS, "set partitions to 9"),
        (seen(replicas=3), TopicOutcome.ACCEPTED, ""),
        (seen(partitions=1), TopicOutcome.ACCEPTED, ""),
        (None, TopicOutcome.ACCEPTED, ""),
    ],
)
def test_a_change_that_kafka_cannot_make_is_reported(
    observed: ObservedTopic | None, outcome: TopicOutcome, words: str
) -> None:
    verdict = judge_observed(a_topic(), observed)
    assert verdict.outcome is outcome
    assert words in verdict.message


@pytest.mark.parametrize(
    ("verdict", "observed", "trouble", "reason", "states", "generation"),
    [
        pytest.param(ACCEPTED, seen(), None, "Applied", ("True", "False", "False"), 3, id="a topic that is applied"),
        pytest.param(
            ACCEPTED, None, None, "Creating", ("False", "True", "False"), -1, id="a topic that is not there yet"
        ),
        pytest.param(
            ACCEPTED, seen(partitions=1), None, "Altering", ("False", "True", "False"), -1, id="a topic that differs"
        ),
        pytest.param(
            ACCEPTED,
            None,
            TopicTrouble("Refused", "INVALID_CONFIG: no"),
            "Refused",
            ("False", "False", "True"),
            3,
            id="a topic Kafka refused",
        ),
        pytest.param(
            ACCEPTED,
            None,
            TopicTrouble("WaitingForBrokers", "2 of 3"),
            "WaitingForBrokers",
            ("False", "True", "False"),
            -1,
            id="a topic that waits for brokers",
        ),
        pytest.param(
            ACCEPTED,
            seen(partitions=9),
            None,
            "TooManyPartitions",
            ("False", "False", "True"),
            3,
            id="a topic that only a person can mend",
        ),
        pytest.param(
            TopicVerdict(TopicOutcome.CONFLICTED, "told"),
            seen(),
            None,
            "Conflicted",
            ("False", "False", "True"),
            3,
            id="a topic that another Topic rules",
        ),
    ],
)
def test_status(
    verdict: TopicVerdict,
    observed: ObservedTopic | None,
    trouble: TopicTrouble | None,
    reason: str,
    states: tuple[str, str, str],
    generation: int,
) -> None:
    status = topic_status(a_topic(), verdict, observed, NOW, trouble)
    found = {condition.type: condition.status for condition in status.conditions}
    assert (found["Ready"], found["Reconciling"], found["Stalled"]) == states
    ready = status.condition("Ready")
    assert ready is not None
    assert ready.reason == reason
    assert status.observed_generation == generation


def test_only_the_ruler_shows_what_kafka_has() -> None:
    assert topic_status(a_topic(), ACCEPTED, seen(), NOW).partitions == 6
    assert topic_status(a_topic(), TopicVerdict(TopicOutcome.CONFLICTED, "told"), seen(), NOW).partitions == 0


def test_the_numbers_of_a_topic_stay_while_brokers_do_not_answer() -> None:
    written = a_topic().model_copy(update={"status": topic_status(a_topic(), ACCEPTED, seen(replicas=3), NOW)})
    away = topic_status(written, ACCEPTED, None, NOW, TopicTrouble("WaitingForBrokers", "no broker answers"))
    assert (away.partitions, away.replicas) == (6, 3)
    gone = topic_status(written, ACCEPTED, None, NOW)
    assert (gone.partitions, gone.replicas) == (0, 0), "brokers say that there is no such topic"


def test_a_topic_that_an_unreadable_object_may_own_is_unchanged() -> None:
    verdicts = judge_topics(a_cluster(), [a_topic(), a_topic("bills")], {"orders": "Topic strange"})
    assert verdicts["bills"] is ACCEPTED
    assert verdicts["orders"] == TopicVerdict(
        TopicOutcome.CONFLICTED, "topic orders is not changed, because Topic strange names it, too, and cannot be read"
    )


def test_a_topic_with_fewer_replicas_than_have_to_be_in_sync_says_how_many_count() -> None:
    strict = a_topic(config={"min.insync.replicas": "3"})
    observed = seen(configs={"min.insync.replicas": "3"})
    told = topic_status(strict, ACCEPTED, observed, NOW).condition("Ready")
    assert told is not None
    assert told.status == "True"
    assert told.message.endswith(f"min.insync.replicas is 3 and counts as {observed.replicas}, the number of replicas")
