"""The ConfigMap with the code of observers: its content while an ObserverPlugin cannot be read."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, ObserverPlugin, parse_resource
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.observer_code import CodeInConfigMaps
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.planning.observers.observers import ObserverPlan
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, observer

GIVEN = {"acme.py": "class Acme: ..."}


def config_map(**has: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop-observers", "labels": has}}


class GoneOnceRead(MemoryKube):
    """An API server on which the owner of a ConfigMap deletes it after the operator has read it."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        found = await super().get(kind, namespace, name)
        if found is not None and kind.kind == "ConfigMap":
            self.remove(kind.kind, name, namespace)
        return found


@pytest.mark.parametrize(("has", "kept"), [(labels("shop", "broker"), GIVEN), ({"app": "theirs"}, {})])
async def test_modules_are_held_from_our_config_map_alone(has: Any, kept: Json) -> None:
    found = parse_resource(cluster(observers={"allowConfigMapCode": True}))
    assert isinstance(found, BrokerCluster)
    kube = GoneOnceRead(config_map(**has) | {"data": GIVEN})
    code = CodeInConfigMaps(Context(kube, read_settings({}, None, None, None)))  # type: ignore[arg-type]
    await code.give(found, ObserverPlan(), keeps=True)
    assert kube.take("ConfigMap", "shop-observers")["data"] == kept


async def test_an_immutable_config_map_is_named_with_what_to_do() -> None:
    found = parse_resource(cluster(observers={"allowConfigMapCode": True}))
    assert isinstance(found, BrokerCluster)
    kube = MemoryKube(config_map(**labels("shop", "broker")) | {"data": GIVEN, "immutable": True})
    code = CodeInConfigMaps(Context(kube, read_settings({}, None, None, None)))  # type: ignore[arg-type]
    await code.give(found, ObserverPlan(), keeps=True)
    with pytest.raises(KubeError, match=r"delete it \(kubectl delete configmap shop-observers\)"):
        await code.give(found, ObserverPlan(), keeps=False)


class Protecting(MemoryKube):
    """Refuses to read the ConfigMap `secret`, at first or permanently."""

    retriable = False

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        if name == "secret":
            raise KubeError(f"GET {name}: 403 forbidden", 403, retriable=self.retriable)
        return await super().get(kind, namespace, name)


async def test_a_config_map_that_may_not_be_read_keeps_no_other_observer_from_its_code() -> None:
    named = config_map() | {"metadata": {"name": "mine"}, "data": {"acme.py": "class Orders: ..."}}
    kube = Protecting(named)
    code = CodeInConfigMaps(Context(kube, read_settings({}, None, None, None)))  # type: ignore[arg-type]
    plugins = []
    for name in ("mine", "secret"):
        plugin = parse_resource(observer(name, **{"class": "acme.Orders", "source": {"configMap": {"name": name}}}))
        assert isinstance(plugin, ObserverPlugin)
        plugins.append(plugin)
    found = await code.find(("default", "shop"), plugins, Refusals())
    assert list(found.modules) == ["mine"]
    assert found.missing == {
        "secret": "ConfigMap secret cannot be read: GET secret: 403 forbidden; brokers keep their current code"
    }
    assert found.keeps
    assert not (await code.find(("default", "shop"), plugins[:1], Refusals())).keeps
    kube.retriable = True
    refusals = Refusals()
    found = await code.find(("default", "shop"), plugins, refusals)
    assert (list(found.modules), found.keeps, found.postponed) == (["mine"], True, frozenset({"secret"}))
    with pytest.raises(KubeError, match="403 forbidden"):
        refusals.raise_first()
