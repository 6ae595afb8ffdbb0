"""The operator is killed at each step: the next one completes everything, whatever was done before.

Nothing is done twice that must happen once. See engine_kills for SLUICEGATE_KILLS=twice.
"""

from collections.abc import Iterator

import pytest

from e2e.world.engine_kills import Killed, Lives, all_ready, one_after_another
from e2e.world.engine_world import (
    BROKERS,
    EngineWorld,
    cluster_document,
    of_cluster,
    quota_document,
)

ADDRESS = "10.0.0.1"


@pytest.fixture
def pods(world: EngineWorld) -> Iterator[Lives]:
    with Lives(world, "pods") as pods:
        yield pods


def rates(world: EngineWorld) -> list[float | str | None]:
    """Limits that the brokers received for the address."""
    return one_after_another([value for entity, _, value in world.cluster.told if entity == (("ip", ADDRESS),)])


def test_what_is_made_changed_and_deleted_with_a_death_at_each_step(world: EngineWorld, pods: Lives) -> None:
    world.apply(
        cluster_document(),
        of_cluster("BrokerListener", "external", name="EXTERNAL", port=9094, protocol="PLAINTEXT"),
        quota_document("address", ADDRESS, 5),
        of_cluster("ConnectionQuota", "all", target={"broker": {}}, maxConnections=100),
        of_cluster("ConnectionQuota", "outside", target={"listener": "EXTERNAL"}, maxConnectionCreationRate=7),
        of_cluster("Topic", "orders", partitions=3, replicas=3, config={"retention.ms": "100000"}),
        of_cluster("Topic", "gone", partitions=1, replicas=1, deletionPolicy="Delete"),
    )
    with Killed(world) as killed:
        made = killed.until(lambda: all_ready(world))
        assert {"CreateTopics", "AlterClientQuotas", "IncrementalAlterConfigs"} <= set(made)
        assert {"POST statefulsets/played-brokers", "POST statefulsets/played-controllers"} <= set(made)
        assert rates(world) == [5.0]
        assert set(pods.lives.values()) == {1}, "no pod was made anew"

        changed = killed.until(lambda: all_ready(world), lambda: change(world))
        assert {"CreatePartitions", "AlterClientQuotas", "IncrementalAlterConfigs"} <= set(changed)
        assert world.cluster.topics["orders"].configs == {"retention.ms": "200000"}
        assert len(world.cluster.topics["orders"].partitions) == 4
        assert world.cluster.defaults["log.retention.ms"] == "3600000"
        assert rates(world) == [5.0, 6.0], "it was changed once, and not lifted in between"
        assert set(pods.lives.values()) == {1}, "what brokers take while they run restarts none"

        gone = killed.until(
            lambda: ADDRESS not in world.cluster.ip_rates and "gone" not in world.cluster.topics,
            lambda: delete(world),
        )
        assert {"DeleteTopics", "AlterClientQuotas"} <= set(gone)
        assert "max.connections" not in world.cluster.defaults
        assert rates(world) == [5.0, 6.0, None]
        assert not world.plane.kubectl("get", "topic", "gone", "--ignore-not-found", "-n", world.namespace)
        assert "orders" in world.cluster.topics


def change(world: EngineWorld) -> None:
    world.apply(
        cluster_document(config={"num.partitions": "3", "log.retention.ms": "3600000"}),
        quota_document("address", ADDRESS, 6),
        of_cluster("Topic", "orders", partitions=4, replicas=3, config={"retention.ms": "200000"}),
    )


def delete(world: EngineWorld) -> None:
    for kind, name in (
        ("connectionquota", "address"),
        ("connectionquota", "all"),
        ("topic", "gone"),
        ("brokerlistener", "external"),
    ):
        world.delete(kind, name, "--wait=false")


def test_a_roll_with_a_death_at_each_step_restarts_each_node_once(world: EngineWorld, pods: Lives) -> None:
    world.apply(cluster_document(), of_cluster("Topic", "orders", partitions=3, replicas=3))
    with Killed(world) as killed:
        killed.settle()
        first = world.pods()
        steps = killed.until(
            lambda: all_ready(world) and set(pods.lives.values()) == {2},
            lambda: world.apply(cluster_document(config={"num.partitions": "4"})),
        )
    assert {f"DELETE pods/{name}" for name in first} <= set(steps), "it was killed at each of them"
    assert set(pods.lives.values()) == {2}, f"each restarted once: {pods.lives}"
    assert len(first) == BROKERS + 1
