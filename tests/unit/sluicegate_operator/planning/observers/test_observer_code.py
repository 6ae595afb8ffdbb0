"""Observers whose code is in a ConfigMap: allowed by the BrokerCluster, found, named by content, awaited."""

from collections.abc import Mapping
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, ObserverPlugin, parse_resource
from sluicegate_operator.planning.observers.observer_code import MODULE_BYTES_MAX, find_modules
from sluicegate_operator.planning.observers.observers import (
    ObservedObservers,
    ObserverPlan,
    ObserverReport,
    PluginOutcome,
    plan_observers,
    reports_on,
)
from tests.support.manifests.bad_manifests import cluster, observer

TEXT = "class Orders: ..."
MINE: Mapping[str, Any] = {"data": {"acme.py": TEXT, "notes.txt": "of no concern"}}


def plan(config_map: Mapping[str, Any] | None = MINE, *, allowed: bool = True) -> ObserverPlan:
    shop = parse_resource(cluster(observers={"allowConfigMapCode": allowed}))
    plugin = parse_resource(observer(**{"class": "acme.Orders", "source": {"configMap": {"name": "mine"}}}))
    assert isinstance(shop, BrokerCluster)
    assert isinstance(plugin, ObserverPlugin)
    return plan_observers(shop, [plugin], find_modules({plugin.name: plugin}, {"mine": config_map}))


def test_brokers_are_given_a_module_that_is_named_by_its_text() -> None:
    planned = plan()
    module = planned.modules["orders"]
    assert (module.file_name, module.text) == (f"{module.name}.py", TEXT)
    assert planned.configs["observer.orders.class"] == f"{module.name}.Orders"
    assert plan({"data": {"acme.py": TEXT + "  # changed"}}).modules["orders"].name != module.name


def test_code_is_rejected_if_the_cluster_does_not_allow_it() -> None:
    planned = plan(allowed=False)
    assert planned.verdicts["orders"].outcome is PluginOutcome.CODE_NOT_ALLOWED
    assert "observers.allowConfigMapCode: true in BrokerCluster shop" in planned.verdicts["orders"].message
    assert (planned.configs, planned.modules) == ({}, {})


@pytest.mark.parametrize(
    ("config_map", "says"),
    [
        (None, "ConfigMap mine does not exist"),
        ({"data": {"other.py": TEXT}}, "ConfigMap mine has no key acme.py"),
        ({}, "ConfigMap mine has no key acme.py"),
        ({"data": {"acme.py": "#" * (MODULE_BYTES_MAX + 1)}}, "larger than 48 KiB"),
        ({"data": {"acme.py": "ö" * (MODULE_BYTES_MAX // 2 + 1)}}, "larger than 48 KiB"),
    ],
)
def test_code_that_is_not_there_is_told(config_map: Mapping[str, Any] | None, says: str) -> None:
    planned = plan(config_map)
    assert planned.verdicts["orders"].outcome is PluginOutcome.CODE_MISSING
    assert says in planned.verdicts["orders"].message
    assert planned.configs == {}


def test_a_wheel_is_one_that_the_brokers_have() -> None:
    wheel = "traffic-1.0.0-py3-none-any.whl"
    plugin = parse_resource(observer(source={"wheel": {"file": wheel}}))
    assert isinstance(plugin, ObserverPlugin)
    for files, outcome in (([wheel], PluginOutcome.ACCEPTED), (["other.whl"], PluginOutcome.CODE_NOT_ALLOWED)):
        shop = parse_resource(cluster(observers={"wheels": {"claimName": "wheels", "files": files}}))
        assert isinstance(shop, BrokerCluster)
        assert plan_observers(shop, [plugin]).verdicts["orders"].outcome is outcome


@pytest.mark.parametrize(("what", "state"), [("{module}", "Loading"), ("kafka", "Failed")])
def test_a_module_missing_in_the_pod_is_pending_and_a_missing_import_is_a_failure(what: str, state: str) -> None:
    planned = plan()
    missing = what.format(module=planned.modules["orders"].name)
    failed = ObserverReport("Failed", f"ModuleNotFoundError: No module named '{missing}'")
    seen = {0: ObservedObservers(default=planned.configs, reports={"orders": failed})}
    assert reports_on(planned, "orders", [0], seen)[0].state == state
