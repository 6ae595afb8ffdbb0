"""When a difference in dynamic configuration counts as drift, and when a broker has only just started."""

from functools import partial

import pytest

from sluicegate_operator.engine.configs import ConfigReconciler
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.own_tags import own_tags
from sluicegate_operator.resources.labels import CLUSTER_LABEL, ROLE_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.manifests.bad_manifests import cluster

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
KEY = "log.retention.ms"
DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS = 32, 48


class Shop:
    def __init__(self, *objects: Json) -> None:
        self.kube = MemoryKube(*(objects or [cluster(config={KEY: "7200000"})]))
        self.brokers = ScriptedCluster(3)
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.marked: list[str] = []
        self.context.mark = lambda queue, _: self.marked.append(queue)
        self.there = self.brokers.pool()
        self.context.pool = self._pool  # type: ignore[method-assign, assignment]
        self._reconciler = ConfigReconciler(self.context, partial(own_tags, self.context))

    async def _pool(self, _: object) -> BrokerPool:
        return self.there

    async def reconcile(self) -> None:
        await self._reconciler.reconcile(SHOP)

    def told(self) -> list[tuple[str, str]]:
        events = [event for name in self.kube.names("Event") for event in [self.kube.take("Event", name)]]
        return sorted((event["type"], event["reason"]) for event in events)


async def test_a_first_setting_is_no_drift_even_if_a_broker_joins_later() -> None:
    shop = Shop()
    everybody = shop.there
    shop.there = everybody.only(0)
    await shop.reconcile()
    shop.there = everybody
    # It has not read the metadata yet, and looks as if a user had removed the key.
    shop.brokers.lags.add(2)
    await shop.reconcile()
    assert {reason for _, reason in shop.told()} == {"ConfigApplied"}
    shop.brokers.lags.clear()
    await shop.reconcile()
    assert {kind for kind, _ in shop.told()} == {"Normal"}


async def test_brokers_are_described_again_after_a_configuration_change() -> None:
    shop = Shop()
    for _ in range(2):
        await shop.reconcile()
        assert shop.marked.count("descriptions") == 1


async def test_a_change_by_hand_is_drift() -> None:
    shop = Shop()
    for _ in range(2):
        await shop.reconcile()
    shop.brokers.defaults[KEY] = "60000"
    await shop.reconcile()
    assert shop.brokers.defaults[KEY] == "7200000"
    assert ("Warning", "ConfigDriftMended") in shop.told()


async def test_values_set_for_an_earlier_cluster_of_the_name_are_no_drift() -> None:
    shop = Shop()
    for _ in range(2):
        await shop.reconcile()
    shop.kube.put(cluster(config={KEY: "7200000"}) | {"metadata": {"name": "shop", "uid": "of-the-next"}})
    shop.brokers.defaults[KEY] = "60000"
    await shop.reconcile()
    assert shop.brokers.defaults[KEY] == "7200000"
    assert {kind for kind, _ in shop.told()} == {"Normal"}


async def test_a_changed_value_is_looked_at_once_any_broker_has_answered() -> None:
    shop = Shop()
    for peer in shop.brokers.peers:
        peer.script(DESCRIBE_CONFIGS, lambda _: None)
        peer.script(DESCRIBE_CLIENT_QUOTAS, lambda _: None)
    await shop.reconcile()
    assert shop.context.progress[SHOP].config_generation == 0
    shop = Shop()
    await shop.reconcile()
    assert shop.context.progress[SHOP].config_generation == 1


async def test_a_value_that_brokers_refuse_is_told_to_the_cluster() -> None:
    shop = Shop()
    shop.brokers.refused.add("7200000")
    await shop.reconcile()
    assert "INVALID" in shop.context.progress[SHOP].config_refused
    assert shop.told() == [("Warning", "ConfigRefused")]


ZONE = "topology.kubernetes.io/zone"
BROKERS = {"replicas": 3, "storage": {"size": "1Gi"}, "tagsFromNodeLabels": {"zone": ZONE}}
TAGGED = cluster(brokers=BROKERS)


def node(name: str, zone: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "namespace": None, "labels": {ZONE: zone}}}


def pod(broker_id: int, on: str) -> Json:
    labels = {CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}
    node_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "shop-brokers",
        "uid": "of-the-brokers",
        "controller": True,
    }
    named = {"name": f"shop-brokers-{broker_id}", "uid": f"{broker_id} on {on}"}
    meta = {**named, "labels": labels, "ownerReferences": [node_set]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": on}}


def on_two_nodes() -> Shop:
    return Shop(TAGGED, node("n1", "a"), node("n2", "b"), pod(0, "n1"), pod(1, "n2"), pod(2, "n2"))


async def test_a_tag_follows_a_broker_to_another_node_and_a_node_that_is_labelled_anew() -> None:
    shop = on_two_nodes()
    await shop.reconcile()
    assert shop.brokers.overrides == {0: {"tag.zone": "a"}, 1: {"tag.zone": "b"}, 2: {"tag.zone": "b"}}
    shop.kube.put(pod(2, "n1"))
    shop.kube.put(node("n2", "c"))
    await shop.reconcile()
    assert shop.brokers.overrides == {0: {"tag.zone": "a"}, 1: {"tag.zone": "c"}, 2: {"tag.zone": "a"}}
    assert {reason for _, reason in shop.told()} == {"ConfigApplied"}, "no drift: a broker has moved"
    said = {event["message"] for event in shop.kube.events("ConfigApplied")}
    assert "changed without a restart: broker 1: tag.zone=c; broker 2: tag.zone=a" in said


async def test_a_broker_on_a_deleted_node_keeps_its_tag_and_the_status_says_why() -> None:
    shop = on_two_nodes()
    await shop.reconcile()
    shop.kube.delete_as_a_person("Node", "n2", None)
    await shop.reconcile()
    assert shop.brokers.overrides[1] == {"tag.zone": "b"}
    sentence = (
        "the broker's tags stay unchanged, because the labels of node n2 cannot be read: the node does not exist"
        " any more"
    )
    assert shop.context.progress[SHOP].config_lagging == dict.fromkeys((1, 2), sentence)
    assert f"broker 1: {sentence}" in {event["message"] for event in shop.kube.events("NodeUnreadable")}


async def test_unwanted_tags_are_removed_from_each_broker() -> None:
    shop = on_two_nodes()
    await shop.reconcile()
    shop.kube.put(cluster())
    for _ in range(2):
        await shop.reconcile()
    assert shop.brokers.overrides == {0: {}, 1: {}, 2: {}}
    assert shop.kube.take("BrokerCluster", "shop")["status"]["dynamicConfigKeys"] == []


async def test_a_tag_is_not_forgotten_while_a_broker_that_is_to_go_may_still_have_it() -> None:
    shop = on_two_nodes()
    await shop.reconcile()
    away = shop.brokers.peers[2]
    away.refuse = True
    away.connections[-1].hang_up()
    shop.kube.put(cluster(brokers={"replicas": 2, "storage": {"size": "1Gi"}}))
    for _ in range(2):
        await shop.reconcile()
    away.refuse = False
    # It is wanted again before it has gone.
    shop.kube.put(cluster(brokers={"replicas": 3, "storage": {"size": "1Gi"}}))
    await shop.reconcile()
    assert shop.brokers.overrides == {0: {}, 1: {}, 2: {}}
