"""Listeners from manifests to brokers and back into their status, without processes."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S
from sluicegate_operator.engine.listeners import APPLYING_RETRY, WAITING_RETRY, ListenerReconciler
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.resources.labels import (
    CLUSTER_LABEL,
    LISTENER_LABEL,
    MANAGED_BY_LABEL,
    MANAGER,
    ROLE_LABEL,
)
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.manifests.bad_manifests import cluster, listener, named_listener

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
BROKERS = 2


NODE_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "shop-brokers",
    "uid": "of-the-brokers",
    "controller": True,
}


def pod(number: int, *, ready: bool = True) -> Json:
    labels = {CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"shop-brokers-{number}", "labels": labels, "ownerReferences": [NODE_SET]},
        "spec": {"nodeName": f"node-{number}"},
        "status": {"podIP": f"b{number}", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def node_set(replicas: int) -> Json:
    owned = {MANAGED_BY_LABEL: MANAGER, CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "shop-brokers", "uid": NODE_SET["uid"], "labels": owned},
        "spec": {"replicas": replicas},
    }


def other(kafka_name: str, port: object) -> Json:
    document = named_listener(kafka_name)
    return document | {"metadata": {"name": kafka_name.lower()}, "spec": document["spec"] | {"port": port}}


def theirs(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"selector": {"app": name}}}


class Shop:
    def __init__(self, *objects: Json, **spec: Any) -> None:
        bundled = {"brokers": {"replicas": BROKERS, "storage": {"size": "1Gi"}}}
        self.kube = MemoryKube(cluster(**bundled | spec), *(pod(number) for number in range(BROKERS)), *objects)
        self.brokers = ScriptedCluster(BROKERS)
        for number, layer in self.brokers.overrides.items():
            layer["listeners"] = f"INTERNAL://b{number}:9091"
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.marked: list[str] = []
        self.context.mark = lambda queue, _: self.marked.append(queue)
        self.there = self.brokers.pool()
        self.context.pool_of = self._pool  # type: ignore[method-assign, assignment]
        self._reconciler = ListenerReconciler(self.context)

    async def _pool(self, *_: object) -> BrokerPool:
        return self.there

    async def reconcile(self) -> Again:
        return await self._reconciler.reconcile(SHOP)

    def status(self, name: str = "shop-external") -> Json:
        found: Json = self.kube.take("BrokerListener", name)["status"]
        return found

    def ready(self, name: str = "shop-external") -> tuple[str, str]:
        found = self.kube.condition("BrokerListener", name)
        return found["status"], found["reason"]

    def told(self, key: str = "listeners") -> list[str | None]:
        return [layer.get(key) for layer in self.brokers.overrides.values()]

    def allot(self, name: str, port: int, ingress: Json | None = None) -> None:
        """Allot ports and addresses, as the API server and a cloud's controller do."""
        service = self.kube.take("Service", name)
        service["spec"]["ports"][0].setdefault("nodePort", port)
        if ingress is not None:
            service["status"] = {"loadBalancer": {"ingress": [ingress]}}


async def test_a_listener_is_opened_on_running_brokers_and_closed_again() -> None:
    shop = Shop(listener())
    await shop.reconcile()
    assert shop.told() == ["INTERNAL://:9091,EXTERNAL://:9094"] * BROKERS
    assert shop.ready() == ("True", "Listening")
    assert shop.status()["brokers"] == "2/2"
    assert shop.status()["bootstrap"] == "shop-external.default.svc:9094"
    assert shop.status()["addresses"] == ["b0:9094", "b1:9094"]
    assert shop.marked == ["clusters", "quotas"]
    [event] = shop.kube.events("ListenerApplied")
    assert event["message"] == "listener EXTERNAL was set on running brokers: 0, 1"
    await shop.reconcile()
    assert shop.brokers.alterations == BROKERS, "nothing is said twice"
    shop.kube.remove("BrokerListener", "shop-external")
    await shop.reconcile()
    assert shop.told() == ["INTERNAL://:9091"] * BROKERS
    [event] = shop.kube.events("ListenerClosed")
    assert event["involvedObject"]["kind"] == "BrokerCluster"


async def test_a_brokers_refusal_is_in_the_status() -> None:
    shop = Shop(listener())
    shop.brokers.refused.add("INTERNAL://:9091,EXTERNAL://:9094")
    assert await shop.reconcile() == REFUSED_RETRY
    assert shop.ready() == ("False", "Refused")
    assert "broker 0 refuses it" in shop.kube.condition("BrokerListener", "shop-external")["message"]
    assert "no such value" in shop.kube.condition("BrokerListener", "shop-external", "Stalled")["message"]
    await shop.reconcile()
    assert [event["count"] for event in shop.kube.events("Refused")] == [1]


async def test_a_listener_that_one_broker_refuses_does_not_delay_the_next_look_at_another_broker() -> None:
    shop = Shop(listener())
    shop.brokers.refused.add("INTERNAL://:9091,EXTERNAL://:9094")
    shop.brokers.peers[1].refuse = True
    assert await shop.reconcile() == APPLYING_RETRY
    assert shop.ready() == ("False", "Refused")
    shop.brokers.peers[1].refuse = False
    assert await shop.reconcile() == REFUSED_RETRY


async def test_a_broker_that_does_not_answer_is_asked_again_soon() -> None:
    shop = Shop(listener())
    shop.brokers.peers[1].refuse = True
    assert await shop.reconcile() == APPLYING_RETRY
    assert shop.ready() == ("False", "BrokersUnreachable")
    assert shop.status()["brokers"] == "1/2"


@pytest.mark.parametrize("held", ["paused", "unreadable"])
async def test_nothing_changes_while_the_cluster_is_paused_or_a_listener_cannot_be_read(held: str) -> None:
    shop = Shop(listener(), paused=held == "paused")
    if held == "unreadable":
        shop.kube.put(other("OTHER", "9096"))
    assert await shop.reconcile() == APPLYING_RETRY
    assert shop.brokers.alterations == 0
    assert shop.kube.names("Service") == []
    assert shop.ready() == ("False", "Applying")


async def test_a_listener_without_its_cluster_says_so() -> None:
    shop = Shop(listener())
    shop.kube.remove("BrokerCluster", "shop")
    assert await shop.reconcile() is None
    assert shop.ready() == ("False", "ClusterMissing")


async def test_a_foreign_service_is_kept_and_the_listener_reports_it_once() -> None:
    shop = Shop(listener(), other("OPEN", 9095), theirs("shop-external"))
    before = dict(shop.kube.take("Service", "shop-external"))
    for _ in range(2):
        assert await shop.reconcile() == REFUSED_RETRY, "the name may be free again any time"
    assert shop.kube.take("Service", "shop-external") == before
    stalled = shop.kube.condition("BrokerListener", "shop-external", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert "create the BrokerListener with another name" in stalled["message"]
    [event] = shop.kube.events("NameTaken")
    assert (event["type"], event["count"], event["involvedObject"]["name"]) == ("Warning", 1, "shop-external")
    # The other listeners are not delayed by it, and it recovers once the name is free.
    assert shop.ready("open") == ("True", "Listening")
    shop.kube.remove("Service", "shop-external")
    await shop.reconcile()
    assert shop.ready() == ("True", "Listening")
    assert shop.kube.take("Service", "shop-external")["metadata"]["ownerReferences"][0]["name"] == "shop-external"


async def held(shop: Shop, how: str) -> None:
    """Hold a cluster whose brokers have opened all listeners."""
    if how == "paused":
        shop.kube.put(cluster(brokers={"replicas": BROKERS, "storage": {"size": "1Gi"}}, paused=True))
    else:
        shop.kube.put(other("OTHER", "9096"))
    await shop.reconcile()


@pytest.mark.parametrize("how", ["paused", "unreadable"])
async def test_a_held_listener_gives_out_no_service_of_somebody_else(how: str) -> None:
    shop = Shop(listener(), theirs("shop-external"))
    await shop.reconcile()
    await held(shop, how)
    assert await shop.reconcile() == REFUSED_RETRY
    assert shop.ready() == ("False", "NameTaken")
    assert shop.status()["bootstrap"] == ""
    assert [event["count"] for event in shop.kube.events("NameTaken")] == [1]


@pytest.mark.parametrize("how", ["paused", "unreadable"])
async def test_a_held_listener_without_its_service_reports_what_clients_wait_for(how: str) -> None:
    shop = Shop(listener())
    await shop.reconcile()
    shop.kube.remove("Service", "shop-external")
    await held(shop, how)
    assert shop.ready() == ("False", "AddressPending")
    assert "clients wait for Service shop-external" in shop.kube.condition("BrokerListener", "shop-external")["message"]
    assert shop.status()["bootstrap"] == ""
    assert shop.kube.names("Service") == []


@pytest.mark.parametrize("how", ["paused", "unreadable"])
async def test_a_held_listener_with_its_own_service_stays_ready(how: str) -> None:
    shop = Shop(listener())
    await shop.reconcile()
    await held(shop, how)
    assert shop.ready() == ("True", "Listening")
    assert shop.status()["bootstrap"] == "shop-external.default.svc:9094"


def node(number: int, address: str) -> Json:
    addresses = [{"type": "InternalIP", "address": address}]
    return {"kind": "Node", "metadata": {"name": f"node-{number}"}, "status": {"addresses": addresses}}


async def test_ports_of_nodes_are_told_once_the_nodes_are_known_and_follow_the_pod() -> None:
    shop = Shop(listener(exposure="NodePort"))
    nodes = {"node-0": node(0, "192.0.2.10"), "node-1": node(1, "192.0.2.11")}
    found = shop.kube.get

    async def get(kind: Any, namespace: str | None, name: str) -> Json | None:
        return nodes.get(name) if kind.kind == "Node" else await found(kind, namespace, name)

    shop.kube.get = get  # type: ignore[method-assign]
    assert await shop.reconcile() == WAITING_RETRY
    assert shop.ready() == ("False", "AddressPending")
    waits = shop.kube.condition("BrokerListener", "shop-external")["message"]
    assert "broker 1 waits for the nodePort of Service shop-external-1" in waits
    assert shop.status()["brokers"] == "0/2"
    for number, name in enumerate(("shop-external", "shop-external-0", "shop-external-1")):
        shop.allot(name, 30090 + number)
    shop.kube.apply = _as_it_is(shop.kube)  # type: ignore[method-assign]
    await shop.reconcile()
    assert shop.told("advertised.listeners") == [
        "INTERNAL://:9091,EXTERNAL://192.0.2.10:30091",
        "INTERNAL://:9091,EXTERNAL://192.0.2.11:30092",
    ]
    assert shop.ready() == ("True", "Listening")
    assert shop.status()["bootstrap"] == "192.0.2.10:30090"
    nodes["node-1"] = node(1, "192.0.2.77")
    await shop.reconcile()
    assert shop.told("advertised.listeners")[1] == "INTERNAL://:9091,EXTERNAL://192.0.2.77:30092"


async def test_nodes_that_may_not_be_read_hold_up_no_other_listener() -> None:
    shop = Shop(listener(exposure="NodePort"), other("OPEN", 9095))
    found, asked = shop.kube.get, []

    async def get(kind: Any, namespace: str | None, name: str) -> Json | None:
        if kind.kind == "Node":
            asked.append(name)
            raise KubeError(f'nodes "{name}" is forbidden', 403, retriable=True)
        return await found(kind, namespace, name)

    shop.kube.get = get  # type: ignore[method-assign]
    await shop.reconcile()
    for name in ("shop-external", "shop-external-0", "shop-external-1"):
        shop.allot(name, 30090)
    shop.kube.apply = _as_it_is(shop.kube)  # type: ignore[method-assign]
    await shop.reconcile()
    assert sorted(set(asked)) == ["node-0", "node-1"], "each is denied from the beginning"
    assert shop.ready("open") == ("True", "Listening")
    assert shop.ready() == ("False", "AddressPending")
    assert 'nodes "node-1" is forbidden' in shop.kube.condition("BrokerListener", "shop-external")["message"]


def _as_it_is(kube: MemoryKube) -> Any:
    """An `apply` that keeps the fields that the API server has allotted."""

    async def apply(manifest: Json, _: object = None) -> Json:
        return kube.take(manifest["kind"], manifest["metadata"]["name"])

    return apply


async def test_a_listener_that_is_not_exposed_any_more_has_one_service_and_advertises_pods() -> None:
    shop = Shop(listener(exposure="LoadBalancer"))
    await shop.reconcile()
    assert shop.kube.names("Service") == ["shop-external", "shop-external-0", "shop-external-1"]
    shop.kube.put(listener())
    await shop.reconcile()
    assert shop.kube.names("Service") == ["shop-external"]
    assert shop.status()["addresses"] == ["b0:9094", "b1:9094"]


async def balanced(**spec: Any) -> Shop:
    """A shop in which each broker's load balancer has an address, and the common one has none yet."""
    shop = Shop(listener(exposure="LoadBalancer", **spec))
    await shop.reconcile()
    for number in range(BROKERS):
        shop.allot(f"shop-external-{number}", 30090, {"ip": f"198.51.100.{number}"})
    shop.kube.apply = _as_it_is(shop.kube)  # type: ignore[method-assign]
    return shop


async def test_a_listener_is_not_ready_before_clients_outside_can_begin() -> None:
    shop = await balanced()
    assert await shop.reconcile() == WAITING_RETRY
    assert shop.ready() == ("False", "AddressPending")
    waits = shop.kube.condition("BrokerListener", "shop-external")["message"]
    assert waits == "open on 2/2 brokers; clients wait for the address of the load balancer of Service shop-external"
    assert shop.status()["bootstrap"] == ""
    shop.allot("shop-external", 30090, {"ip": "198.51.100.9"})
    assert await shop.reconcile() != WAITING_RETRY
    assert shop.ready() == ("True", "Listening")
    assert shop.status()["bootstrap"] == "198.51.100.9:9094"


async def test_with_an_advertised_host_the_user_provides_the_bootstrap_address_too() -> None:
    shop = await balanced(advertisedHost="broker-{broker}.example.org")
    assert await shop.reconcile() != WAITING_RETRY
    assert shop.ready() == ("True", "Listening")


async def test_a_broker_to_be_removed_keeps_its_service_while_its_pod_is_replaced() -> None:
    shop = Shop(listener(exposure="LoadBalancer"), node_set(BROKERS + 1))
    await shop.reconcile()
    assert f"shop-external-{BROKERS}" in shop.kube.names("Service")
    shop.kube.put(node_set(BROKERS))
    await shop.reconcile()
    assert f"shop-external-{BROKERS}" not in shop.kube.names("Service")


async def test_a_load_balancer_that_hides_addresses_is_told_to_the_quotas() -> None:
    shop = Shop(listener(exposure="LoadBalancer"))
    await shop.reconcile()
    for number, name in enumerate(("shop-external", "shop-external-0", "shop-external-1")):
        shop.allot(name, 30090, {"ip": f"198.51.100.{number}", "ipMode": "Proxy"})
    shop.kube.apply = _as_it_is(shop.kube)  # type: ignore[method-assign]
    shop.marked.clear()
    await shop.reconcile()
    hidden = shop.kube.condition("BrokerListener", "shop-external", "ClientAddressHidden")
    assert (hidden["status"], hidden["reason"]) == ("True", "BalancerIsProxy")
    assert shop.ready() == ("True", "Listening")
    assert shop.status()["addresses"] == ["198.51.100.1:9094", "198.51.100.2:9094"]
    assert shop.marked == ["clusters", "quotas"]


def _refuse_deletions(shop: Shop, error: KubeError) -> None:
    async def delete(*_: Any, **__: Any) -> None:
        raise error

    shop.kube.delete = delete  # type: ignore[method-assign]


async def exposed_no_more(error: KubeError) -> Shop:
    """A listener that needs no Services for brokers any more, while the API server refuses to delete them."""
    shop = Shop(listener(exposure="LoadBalancer"), other("OPEN", 9095))
    await shop.reconcile()
    _refuse_deletions(shop, error)
    shop.kube.put(listener())
    shop.kube.put(other("THIRD", 9096))
    return shop


async def test_a_service_that_cannot_be_deleted_keeps_no_listener_from_its_clients() -> None:
    shop = await exposed_no_more(KubeError("DELETE shop-external-0: 403 deletion protected", 403))
    assert await shop.reconcile() == REFUSED_RETRY
    assert shop.ready("open") == shop.ready("third") == ("True", "Listening")
    assert shop.ready() == ("False", "ServiceNotDeleted")
    assert "403 deletion protected" in shop.kube.condition("BrokerListener", "shop-external", "Stalled")["message"]
    # Its own clients are served as well.
    assert shop.status()["addresses"] == ["b0:9094", "b1:9094"]
    assert shop.status()["bootstrap"] == "shop-external.default.svc:9094"
    await shop.reconcile()
    assert [event["count"] for event in shop.kube.events("ServiceNotDeleted")] == [1]


async def test_a_deletion_that_may_be_accepted_later_is_tried_again_and_told_when_that_lasts() -> None:
    shop = await exposed_no_more(KubeError("failed calling webhook", 500, retriable=True))
    for wait_s, ready in ((0, ("True", "Listening")), (TOLD_AFTER_S, ("False", "NotApplied"))):
        await asyncio.sleep(wait_s)
        with pytest.raises(KubeError, match="failed calling webhook"):
            await shop.reconcile()
        assert shop.ready() == ready
        assert shop.ready("third") == ("True", "Listening")
        assert shop.status()["bootstrap"] == "shop-external.default.svc:9094"
    assert "failed calling webhook" in shop.kube.condition("BrokerListener", "shop-external")["message"]


async def test_a_load_balancer_still_hides_addresses_while_its_service_cannot_be_changed() -> None:
    shop = Shop(listener(exposure="LoadBalancer"))
    await shop.reconcile()
    for number, name in enumerate(("shop-external", "shop-external-0", "shop-external-1")):
        shop.allot(name, 30090, {"ip": f"198.51.100.{number}", "ipMode": "Proxy"})
    shop.kube.apply = _as_it_is(shop.kube)  # type: ignore[method-assign]
    await shop.reconcile()
    addresses = shop.status()["addresses"]

    async def refused(*_: Any) -> Json:
        raise KubeError("PATCH Service: 422 nodePort is already allocated", 422)

    shop.kube.apply = refused  # type: ignore[method-assign, assignment]
    assert await shop.reconcile() == REFUSED_RETRY
    assert shop.ready() == ("False", "Refused")
    hidden = shop.kube.condition("BrokerListener", "shop-external", "ClientAddressHidden")
    assert (hidden["status"], hidden["reason"]) == ("True", "BalancerIsProxy")
    assert shop.status()["addresses"] == addresses, "brokers tell their clients what they told before"


OF_THE_LISTENER = {MANAGED_BY_LABEL: MANAGER, CLUSTER_LABEL: "shop", LISTENER_LABEL: "EXTERNAL"}


def orphan(name: str = "shop-external-7", owner: Json | None = None, labels: Json | None = None) -> Json:
    """A Service that the listener once had for a broker. `labels` replace those of the listener's Services."""
    owners: Json = {"ownerReferences": [owner]} if owner else {}
    meta: Json = {"name": name, "labels": {**OF_THE_LISTENER, **(labels or {})}, **owners}
    spec = {"type": "LoadBalancer", "ports": [{"port": 9094}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def owner(kind: str, name: str) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "name": name, "uid": "gone", "controller": True}


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(orphan(), id="without an owner"),
        pytest.param(orphan(owner=owner("BrokerListener", "shop-external")), id="of an earlier listener of the name"),
    ],
)
async def test_an_orphaned_service_that_no_broker_needs_is_deleted(service: Json) -> None:
    shop = Shop(listener(exposure="LoadBalancer"), service, orphan("shop-external-0"))
    await shop.reconcile()
    assert shop.kube.names("Service") == ["shop-external", "shop-external-0", "shop-external-1"]
    adopted = shop.kube.take("Service", "shop-external-0")["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in adopted] == ["shop-external"]


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(orphan(labels={CLUSTER_LABEL: "other"}), id="of another cluster"),
        pytest.param(orphan(labels={LISTENER_LABEL: "OTHER"}), id="of another listener"),
        pytest.param(orphan(labels={MANAGED_BY_LABEL: "helm"}), id="of another manager"),
        pytest.param(orphan("shop-external-admin"), id="of a name that the operator never gives"),
        pytest.param(orphan("payments"), id="of another name"),
        pytest.param(orphan(owner=owner("BrokerListener", "other")), id="that another listener controls"),
        pytest.param(orphan(owner=owner("Gateway", "shop-external")), id="that another kind controls"),
        pytest.param(theirs("shop-external-7"), id="without any label"),
    ],
)
async def test_a_service_of_another_owner_is_never_deleted(service: Json) -> None:
    shop = Shop(listener(exposure="LoadBalancer"), service)
    name = service["metadata"]["name"]
    before = dict(shop.kube.take("Service", name))
    await shop.reconcile()
    assert shop.kube.take("Service", name) == before


async def test_an_orphan_that_another_owner_has_adopted_since_it_was_read_stays() -> None:
    shop = Shop(listener(exposure="LoadBalancer"), orphan())
    delete = shop.kube.delete

    async def late(*arguments: Any, **options: Any) -> None:
        shop.kube.put(orphan(owner=owner("Gateway", "shop")))
        await delete(*arguments, **options)

    shop.kube.delete = late  # type: ignore[method-assign]
    with pytest.raises(KubeError, match="has changed"):
        await shop.reconcile()
    assert "shop-external-7" in shop.kube.names("Service")
    await shop.reconcile()
    assert "shop-external-7" in shop.kube.names("Service")
