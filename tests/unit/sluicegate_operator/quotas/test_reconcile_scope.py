"""The quota path with scope Cluster: set, moved, refused by earlier releases and by Apache Kafka, and in Events."""

from typing import Any

import pytest

from sluicegate_operator.api.models.parts.broker_shares import BrokerShare, BrokerShares, ShareState
from sluicegate_operator.quotas.statuses import ON_RESERVE, SHARES_GRANTED
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.unit.sluicegate_operator.quotas.test_reconcile import Shop, cluster, quota
from tests.unit.sluicegate_operator.quotas.test_reconcile_outside import others_cluster

pytestmark = pytest.mark.virtual_time

RATE, SCOPE = (f"listener.name.external.{key}" for key in ("max.connection.creation.rate", "connection.quota.scope"))
GROUP = (("connection-group", "default/one"),)
MEMBER = (("connection-group", "default/one"), ("ip", "10.0.0.1"))


def on(target: Json, scope: str = "Cluster", **more: Any) -> Json:
    spec = {"clusterRef": {"name": "shop"}, "target": target, "maxConnectionCreationRate": 300, "scope": scope}
    return quota("one", "10.0.0.1") | {"spec": spec | more}


async def test_a_listener_gets_the_scope_and_loses_it() -> None:
    shop = Shop(MemoryKube(cluster(3), on({"listener": "EXTERNAL"})))
    for scope, defaults in (
        ("Cluster", {RATE: "300", SCOPE: "cluster"}),
        ("Broker", {RATE: "300"}),
        ("Cluster", {RATE: "300", SCOPE: "cluster"}),
    ):
        shop.kube.put(on({"listener": "EXTERNAL"}, scope))
        await shop.reconcile()
        assert shop.brokers.defaults == defaults
        assert shop.said("one") == ("3/3", "True", "Enforced")
    shop.kube.remove("ConnectionQuota", "one")
    await shop.reconcile()
    assert shop.brokers.defaults == {}


async def test_an_address_moves_between_its_two_forms() -> None:
    shop = Shop(MemoryKube(cluster(3)))
    for scope in ("Broker", "Cluster", "Broker"):
        shop.kube.put(on({"ip": "10.0.0.1"}, scope, maxConnections=9))
        await shop.reconcile()
        assert shop.said("one") == ("3/3", "True", "Enforced")
        groups = {entity: values for entity, values in shop.brokers.groups.items() if values}
        if scope == "Cluster":
            assert groups[MEMBER] == {"member": 1}
            assert groups[GROUP] == {"connection_creation_rate": 300, "max_connections": 9, "shared": 1, "cluster": 1}
            assert (shop.brokers.ip_rates, shop.brokers.defaults) == ({}, {})
        else:
            assert groups == {}
            assert shop.brokers.ip_rates == {"10.0.0.1": 300}
            assert shop.brokers.defaults == {"max.connections.per.ip.overrides": "10.0.0.1:9"}


@pytest.mark.parametrize("target", [{"listener": "EXTERNAL"}, {"ip": "10.0.0.1"}], ids=str)
async def test_a_scope_that_the_controller_does_not_know_is_refused_and_each_broker_has_the_rate(target: Json) -> None:
    shop = Shop(MemoryKube(cluster(3), on(target)))
    shop.brokers.refused.add("cluster")
    shop.brokers.refused_group_keys.add("cluster")
    for _ in range(2):
        await shop.reconcile()
        assert shop.said("one") == ("0/3", "False", "Refused")
    if "ip" in target:
        assert shop.brokers.groups[GROUP] == {"connection_creation_rate": 300, "shared": 1}
    else:
        assert shop.brokers.defaults == {RATE: "300"}
    shop.brokers.refused.clear()
    shop.brokers.refused_group_keys.clear()
    shop.kube.put(on(target, maxConnectionCreationRate=299))
    await shop.reconcile()
    assert shop.said("one") == ("3/3", "True", "Enforced"), "the controllers were upgraded"


async def test_a_cluster_of_apache_kafka_gets_nothing() -> None:
    shop = Shop(MemoryKube(others_cluster(), on({"ip": "10.0.0.1"})))
    await shop.reconcile()
    ready = shop.kube.condition("ConnectionQuota", "one")
    assert (ready["status"], ready["reason"]) == ("False", "Unsupported")
    assert "Apache Kafka has no rates of all brokers together" in ready["message"]
    assert (shop.brokers.ip_rates, shop.brokers.groups, shop.brokers.defaults) == ({}, {}, {})
    assert shop.brokers.alterations == 0


def shares(state: ShareState) -> BrokerShares:
    return BrokerShares(summary="33/s", brokers=[BrokerShare(broker_id=0, share=33.0, state=state)])


async def test_events_tell_that_a_broker_falls_to_its_reserve_and_leaves_it() -> None:
    shop = Shop(MemoryKube(cluster(3), on({"listener": "EXTERNAL"})))
    await shop.reconcile()
    for state in (ShareState.GRANTED, ShareState.RESERVE, ShareState.RESERVE, ShareState.GRANTED):
        shop.governed.quotas["one"].shares = shares(state)
        for _ in shop.governed.assess(shop.context.first_seen, shop.now(), names=["one"]):
            pass
        await shop.tell()
        condition = shop.kube.condition("ConnectionQuota", "one", "ShareGranted")
        assert (condition["status"] == "True") is (state is ShareState.GRANTED)
    [fallen], [left] = shop.kube.events(ON_RESERVE), shop.kube.events(SHARES_GRANTED)
    assert (fallen["type"], left["type"]) == ("Warning", "Normal")
    assert fallen["message"].endswith("reserve of the rate: broker 0 (33/s)")
    assert left["message"] == "the controller has granted shares again: broker 0"
