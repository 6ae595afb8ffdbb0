"""The operator killed at each step: whatever it has done or not, the next one brings everything to its end, and nothing
is done twice that must not be.

SLUICEGATE_KILLS=twice kills before and after each step; else it is one of them.
"""

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster.waiting import NotInTimeError
from e2e.engine_world import (
    BROKERS,
    EngineWorld,
    cluster_document,
    of_cluster,
    quota_document,
)
from e2e.operator_killer import OperatorKiller
from tests.support.kube_watch import KubeWatch
from tests.support.process_kubelet.api import Access, Json

TWICE = os.environ.get("SLUICEGATE_KILLS") == "twice"
QUIET_S = 2.5
RESYNC_S = 1.0
TIMEOUT_S = 400.0
ADDRESS = "10.0.0.1"
KINDS = "brokerclusters,brokerlisteners,connectionquotas,topics,brokerregistrations"


class Pods:
    """Uids of the broker pods that there ever were, by name."""

    def __init__(self) -> None:
        self.uids: defaultdict[str, set[str]] = defaultdict(set)

    def heard(self, _: str, pod: Json) -> None:
        self.uids[pod["metadata"]["name"]].add(pod["metadata"]["uid"])

    @property
    def lives(self) -> Counter[str]:
        return Counter({name: len(uids) for name, uids in self.uids.items()})


@pytest.fixture
def pods(world: EngineWorld) -> Iterator[Pods]:
    pods = Pods()
    access = Access(world.plane.url, str(world.plane.certificate), world.plane.token)
    with KubeWatch(access, f"/api/v1/namespaces/{world.namespace}/pods", pods.heard):
        yield pods


def all_ready(world: EngineWorld, kinds: str = KINDS) -> bool:
    try:
        return not world.unready(kinds)
    except (AssertionError, NotInTimeError):
        return False


def rates(world: EngineWorld) -> list[float | None]:
    """What the brokers were told of the address, one after another, without what was there already."""
    told = [value for entity, _, value in world.cluster.told if entity == (("ip", ADDRESS),)]
    return [value for before, value in zip([object(), *told], told, strict=False) if value != before]


class Killed:
    """Runs with an operator that dies at each step; the steps of each run."""

    def __init__(self, world: EngineWorld) -> None:
        self._world = world
        self._operator = world.operator(resync_s=RESYNC_S)
        self._applied_again: set[str] = set()
        """Children that each new operator brings to what they are already: once is enough."""

    def __enter__(self) -> "Killed":
        self._operator.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.kill()

    def until(self, is_done: Callable[[], bool], change: Callable[[], None] = lambda: None) -> list[str]:
        """`change` is what there is to do."""
        known = () if TWICE else self._applied_again
        with OperatorKiller(self._operator, self._world.proxy, self._world.served, known, twice=TWICE) as killer:
            change()
            killer.run_until(is_done, quiet_s=QUIET_S, timeout_s=TIMEOUT_S)
        logging.getLogger(__name__).info("killed %d times: %s", len(killer.killed), killer.killed)
        steps = [step for _, step in killer.killed]
        self._applied_again |= {step for step in steps if step.startswith("PATCH") and not step.endswith("/status")}
        return steps


def test_what_is_made_changed_and_deleted_with_a_death_at_each_step(world: EngineWorld, pods: Pods) -> None:
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


def test_a_roll_with_a_death_at_each_step_restarts_each_node_once(world: EngineWorld, pods: Pods) -> None:
    world.apply(cluster_document(), of_cluster("Topic", "orders", partitions=3, replicas=3))
    with world.operator(resync_s=RESYNC_S):
        world.await_ready()
    first = world.pods()
    with Killed(world) as killed:
        steps = killed.until(
            lambda: all_ready(world) and set(pods.lives.values()) == {2},
            lambda: world.apply(cluster_document(config={"num.partitions": "4"})),
        )
    assert {f"DELETE pods/{name}" for name in first} <= set(steps), "it was killed at each of them"
    assert set(pods.lives.values()) == {2}, f"each restarted once: {pods.lives}"
    assert len(first) == BROKERS + 1
