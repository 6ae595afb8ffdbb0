"""ObserverPlugins of one cluster: their status, and the messages to users."""

from typing import Any

import pytest

from sluicegate_operator.engine.observers import ObserverReconciler
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.observer_code import CodeInConfigMaps
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.fakes.scripted_cluster import ScriptedCluster
from tests.support.manifests.bad_manifests import cluster, observer

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
KIND = "ObserverPlugin"


class Shop:
    def __init__(self, *objects: dict[str, Any]) -> None:
        self.kube = MemoryKube(*objects)
        self.brokers = ScriptedCluster(3)
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        pool = self.brokers.pool()

        async def the_pool(_: object) -> object:
            return pool

        self.context.pool = the_pool  # type: ignore[method-assign, assignment]
        self._reconciler = ObserverReconciler(self.context, CodeInConfigMaps(self.context))

    def say(self, text: str, *brokers: int) -> None:
        for number in brokers or range(3):
            self.brokers.documentation[number] = {"observer.orders.class": f"Doc. On this broker: orders: {text}"}

    async def reconcile(self) -> Again:
        return await self._reconciler.reconcile(SHOP)

    def status(self) -> Any:
        return self.kube.take(KIND, "orders")["status"]


async def test_an_event_reports_once_that_all_brokers_loaded_the_observer() -> None:
    shop = Shop(cluster(), observer())
    shop.say("Loaded")
    for _ in range(2):
        assert not isinstance(await shop.reconcile(), Retry)
    assert (shop.status()["state"], shop.status()["brokers"]) == ("Loaded", "3/3")
    assert shop.kube.condition(KIND, "orders")["status"] == "True"
    assert len(shop.kube.events("Loaded")) == 1


async def test_a_broken_class_is_a_matter_for_a_person_and_named() -> None:
    shop = Shop(cluster(), observer())
    shop.say("Loaded")
    shop.say("Failed (ImportError: no module named acme)", 1)
    assert not isinstance(await shop.reconcile(), Retry), "the broker itself tries again"
    assert (shop.status()["state"], shop.status()["brokers"]) == ("Failed", "2/3")
    assert shop.status()["brokerStates"][0] == {
        "brokerId": 1,
        "state": "Failed",
        "message": "ImportError: no module named acme",
    }
    assert "ImportError: no module named acme" in shop.kube.condition(KIND, "orders", "Stalled")["message"]
    assert len(shop.kube.events("Failed")) == 1


async def test_a_new_remark_of_a_broker_about_a_loaded_observer_is_an_event() -> None:
    shop = Shop(cluster(), observer())
    shop.say("Loaded")
    await shop.reconcile()
    for count in (6, 7):
        shop.say(f"Loaded ({count} spools wait to be landed)", 2)
        await shop.reconcile()
    (event,) = shop.kube.events("BrokerRemarks")
    assert event["message"] == "broker 2: 6 spools wait to be landed"
    ready = shop.kube.condition(KIND, "orders")
    assert (ready["status"], ready["message"]) == (
        "True",
        "loaded by all 3 brokers; broker 2: 7 spools wait to be landed",
    )


async def test_an_audit_log_without_a_lander_reports_this_from_the_start() -> None:
    says = []
    for made in (cluster(), cluster(audit={"landing": {"claimName": "audit"}})):
        shop = Shop(made, observer(builtIn="audit-log"))
        shop.say("Loaded")
        await shop.reconcile()
        says.append(shop.kube.condition(KIND, "orders")["message"])
    assert says == [
        "loaded by all 3 brokers; the audit log is not landed: set audit.landing in BrokerCluster shop",
        "loaded by all 3 brokers",
    ]


CODE = {"kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"orders.py": "class Orders: pass"}}
CODED = {"source": {"configMap": {"name": "code"}}, "class": "orders.Orders"}


async def test_a_strangers_config_map_of_the_name_is_never_given_to_brokers_and_named() -> None:
    plugin = observer(**CODED)
    other = observer("builtin", builtIn="audit-log")
    shop = Shop(cluster(observers={"allowConfigMapCode": True}), CODE, plugin, other)
    shop.kube.put({"kind": "ConfigMap", "metadata": {"name": "shop-observers"}, "data": {"theirs.py": ""}})
    await shop.reconcile()
    stalled = shop.kube.condition(KIND, "orders", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert "ConfigMap shop-observers that does not belong to the operator exists" in stalled["message"]
    assert shop.brokers.defaults["observer.class.names"] == "builtin", "the others are not held up"
    assert shop.kube.take("ConfigMap", "shop-observers")["data"] == {"theirs.py": ""}


async def test_code_refused_by_the_api_server_is_reported_and_brokers_keep_the_previous_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(cluster(observers={"allowConfigMapCode": True}), CODE, observer(**CODED))
    await shop.reconcile()
    before = dict(shop.brokers.defaults)
    assert before["observer.class.names"] == "orders"

    async def refuse(*_: object) -> None:
        raise KubeError("exceeded quota", 403)

    monkeypatch.setattr(shop.kube, "apply", refuse)
    shop.kube.put(CODE | {"data": {"orders.py": "class Orders: x = 1"}})
    await shop.reconcile()
    stalled = shop.kube.condition(KIND, "orders", "Stalled")
    assert (stalled["status"], stalled["reason"], stalled["message"]) == ("True", "Refused", "exceeded quota")
    assert shop.brokers.defaults == before


async def test_a_loading_observer_is_checked_again_soon() -> None:
    shop = Shop(cluster(), observer())
    shop.say("Loading (it is being loaded)")
    assert isinstance(await shop.reconcile(), Retry)
    assert shop.status()["state"] == "Loading"
    shop.say("Loaded")
    assert not isinstance(await shop.reconcile(), Retry)
    assert shop.status()["state"] == "Loaded"


async def test_a_deleted_one_is_taken_off_the_brokers_and_an_unreadable_one_is_not() -> None:
    shop = Shop(cluster(), observer())
    shop.say("Loaded")
    await shop.reconcile()
    before = dict(shop.brokers.defaults)
    assert before["observer.class.names"] == "orders"
    shop.kube.put(observer() | {"spec": {"clusterRef": {"name": "shop"}, "class": "no class"}})
    await shop.reconcile()
    assert shop.brokers.defaults == before
    shop.kube.remove(KIND, "orders")
    await shop.reconcile()
    assert shop.brokers.defaults == {}


async def test_code_of_a_config_map_goes_into_the_one_that_brokers_have_mounted() -> None:
    source = {"class": "acme.Orders", "source": {"configMap": {"name": "mine"}}}
    mine = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mine"},
        "data": {"acme.py": "class Orders: ..."},
    }
    shop = Shop(cluster(observers={"allowConfigMapCode": True}), observer(**source), mine)
    shop.say("Loaded")
    await shop.reconcile()
    class_name = shop.brokers.defaults["observer.orders.class"]
    given = shop.kube.take("ConfigMap", "shop-observers")
    assert given["data"] == {f"{class_name.partition('.')[0]}.py": "class Orders: ..."}
    assert (shop.status()["state"], shop.status()["delivery"]) == ("Loaded", "Live")
    readable = shop.kube.take(KIND, "orders")
    shop.kube.put(observer() | {"spec": {"clusterRef": {"name": "shop"}, "class": "no class"}})
    await shop.reconcile()
    assert shop.kube.take("ConfigMap", "shop-observers")["data"] == given["data"], "brokers may start anew meanwhile"
    shop.kube.put(readable)
    shop.context.progress[SHOP].rolling = True
    await shop.reconcile()
    assert shop.status()["delivery"] == "Roll"


async def test_code_of_a_config_map_is_refused_where_it_is_not_allowed() -> None:
    shop = Shop(cluster(), observer(**{"class": "acme.Orders", "source": {"configMap": {"name": "mine"}}}))
    await shop.reconcile()
    assert shop.kube.condition(KIND, "orders", "Stalled")["reason"] == "CodeNotAllowed"
    assert "shop-observers" not in shop.kube.names("ConfigMap")
    assert shop.brokers.defaults == {}


async def test_one_without_a_cluster_says_so() -> None:
    shop = Shop(observer())
    assert await shop.reconcile() is None
    assert "bundled BrokerCluster shop does not exist" in shop.kube.condition(KIND, "orders", "Stalled")["message"]
