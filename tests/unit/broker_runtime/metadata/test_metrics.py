"""Counts of the cluster's and a broker's partitions, from metadata."""

from broker_runtime.metadata.areas.topics import NO_LEADER, PartitionRecord
from broker_runtime.metadata.metrics import (
    ControllerMetrics,
    OncePerState,
    ReplicationMetrics,
    controller_figures,
    replication_figures,
)
from tests.support.worlds.controller import Metadata


def a_cluster() -> Metadata:
    """A cluster whose broker 2 is fenced: it is out of every in-sync set, and its only replicas are offline."""
    metadata = Metadata()
    metadata.broker(0)
    metadata.broker(1)
    metadata.broker(2, fenced=True)
    topic_id = metadata.topic("t", [0, 1, 2], [1, 2, 0], [2])
    metadata.write(
        PartitionRecord(topic_id, 0, (0, 1, 2), (0, 1), 0, 0, 1),
        PartitionRecord(topic_id, 1, (1, 2, 0), (0,), 0, 1, 1),
        PartitionRecord(topic_id, 2, (2,), (2,), NO_LEADER, 1, 1),
    )
    return metadata


def test_the_active_controller_counts_brokers_and_partitions() -> None:
    assert controller_figures(a_cluster().image, active=True) == ControllerMetrics(
        active=True,
        active_brokers=2,
        fenced_brokers=1,
        topics=1,
        partitions=3,
        offline_partitions=1,
        preferred_replica_imbalance=2,
    )


def test_a_standby_shows_nothing_of_the_cluster() -> None:
    assert controller_figures(a_cluster().image, active=False) == ControllerMetrics(False, 0, 0, 0, 0, 0, 0)


def test_a_broker_counts_what_it_leads() -> None:
    figures = replication_figures(a_cluster().image, 0, lambda _topic: 2, (4, 3))
    assert figures == ReplicationMetrics(
        partitions=2, leaders=2, under_replicated=2, under_min_isr=1, at_min_isr=1, isr_shrinks=4, isr_expands=3
    )


def test_a_broker_that_leads_nothing_has_nothing_under_replicated() -> None:
    figures = replication_figures(a_cluster().image, 1, lambda _topic: 2, (0, 0))
    assert (figures.partitions, figures.leaders, figures.under_replicated, figures.under_min_isr) == (2, 0, 0, 0)


def test_once_per_state_computes_once_for_each_state_of_an_image() -> None:
    metadata, other, made = Metadata(), Metadata(), list[int]()
    once: OncePerState[int] = OncePerState()

    def make() -> int:
        made.append(1)
        return len(made)

    assert [once.get(metadata.image, make), once.get(metadata.image, make)] == [1, 1]
    metadata.topic("a", (1,))
    other.topic("a", (1,))
    assert [once.get(metadata.image, make), once.get(metadata.image, make)] == [2, 2]
    assert once.get(other.image, make) == 3
