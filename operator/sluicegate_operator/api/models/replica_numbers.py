"""Numbers of replicas that contradict each other, in a BrokerCluster or between a Topic and its cluster.

The API server accepts such objects: with a rule in the schema, objects that were accepted before would become
unreadable. The commands that read files refuse them, and the operator reports them in the status.
"""

from collections.abc import Iterator

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.config_values import WholeNumber
from sluicegate_operator.api.schema.rules import Problem

MIN_IN_SYNC = "min.insync.replicas"
_FACTOR = "default.replication.factor"
_REPLICA_KEYS = (_FACTOR, MIN_IN_SYNC, "offsets.topic.replication.factor")
_NUMBER = WholeNumber(1)
_FIELD = "spec.config"


def cluster_contradictions(cluster: BrokerCluster) -> list[Problem]:
    """Return a problem for each number in `spec.config` that another number of the BrokerCluster contradicts."""
    config = cluster.spec.config or {}
    numbers = {key: int(config[key]) for key in _REPLICA_KEYS if key in config and _NUMBER.accepts(config[key])}
    found = []
    if cluster.spec.brokers is not None:
        brokers = cluster.spec.brokers.replicas
        found += [
            f"{key} is {number}, and spec.brokers.replicas is {brokers}: a broker can have only one replica of"
            f" a partition; set {key} to {brokers} or less, or run {number} brokers"
            for key, number in numbers.items()
            if number > brokers
        ]
    if not found and numbers.get(MIN_IN_SYNC, 0) > numbers.get(_FACTOR, numbers.get(MIN_IN_SYNC, 0)):
        found.append(
            f"{MIN_IN_SYNC} is {numbers[MIN_IN_SYNC]}, and {_FACTOR} is {numbers[_FACTOR]}: a topic with the"
            f" default number of replicas never has so many in sync; set {MIN_IN_SYNC} to {numbers[_FACTOR]}"
            f" or less, or {_FACTOR} to {numbers[MIN_IN_SYNC]}"
        )
    return [Problem(_FIELD, sentence) for sentence in found]


def topic_contradictions(topic: Topic, cluster: BrokerCluster | None) -> Iterator[Problem]:
    """Yield a problem for each number of the Topic that contradicts another; none without `spec.replicas`.

    `cluster` is None if it is not known.
    """
    replicas = topic.spec.replicas
    if replicas is None:
        return
    if cluster is not None and cluster.spec.brokers is not None and replicas > cluster.spec.brokers.replicas:
        brokers = cluster.spec.brokers.replicas
        yield Problem(
            "spec.replicas",
            f"is {replicas}, and BrokerCluster {cluster.name} has {brokers} brokers: a broker can have only"
            f" one replica of a partition; set replicas to {brokers} or less, or run {replicas} brokers",
        )
    least = min_in_sync(topic)
    if least > replicas:
        yield Problem(
            _FIELD,
            f"{MIN_IN_SYNC} is {least}, and spec.replicas is {replicas}: so many replicas are never in sync;"
            f" set {MIN_IN_SYNC} to {replicas} or less, or replicas to {least} or more",
        )


def min_in_sync(topic: Topic) -> int:
    """Return `min.insync.replicas` of the Topic's config, 0 if absent."""
    text = (topic.spec.config or {}).get(MIN_IN_SYNC, "")
    return int(text) if _NUMBER.accepts(text) else 0
