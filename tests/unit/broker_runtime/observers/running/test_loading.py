"""Observers from configuration keys, and the errors of those that cannot be loaded."""

from typing import Any

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.config.keys.observers import observer_key, observer_names_problem, split_observer_key
from broker_runtime.errors import ConfigError
from broker_runtime.observers.filters import Filter
from broker_runtime.observers.running.loading import BUILT_IN, ObserverLoadError, ObserverSpec, load, wanted_observers
from broker_runtime.wire.versions import LIST_OFFSETS, PRODUCE

NO_FILTER = Filter()


def wanted(**dynamic: str) -> tuple[dict[str, ObserverSpec], dict[str, str]]:
    stored = {key.replace("__", ".").replace("_", "."): text for key, text in dynamic.items()}
    effective = effective_config(broker_settings({"node.id": "1"}), stored, {})
    assert effective.ignored == ()
    found, problems = wanted_observers(effective.config, effective.values)
    return dict(found), dict(problems)


def test_no_observer_is_configured_by_default() -> None:
    assert wanted() == ({}, {})


def test_a_class_is_called_by_its_last_part_and_given_what_is_its_own() -> None:
    found, problems = wanted(
        observer_class_names="acme.audit.Orders,json-log",
        observer_Orders_filter_api_keys="Produce,LIST_OFFSETS",
        observer_Orders_filter_listeners="external",
        observer_Orders_budget_us="250",
        observer_Orders_target_path="/tmp/orders",
        observer_Other_word="not for Orders",
        sluicegate_observer_budget_us="2000",
    )
    assert problems == {}
    orders, log = found["Orders"], found["json-log"]
    assert orders.class_name == "acme.audit.Orders"
    assert orders.config == {"target.path": "/tmp/orders"}
    assert orders.wanted == Filter(frozenset({PRODUCE, LIST_OFFSETS}), frozenset({"EXTERNAL"}))
    assert (orders.budget_s, log.budget_s) == (0.00025, 0.002)
    assert log.class_name == "broker_runtime.observers.json_log.JsonLog"


def test_a_custom_name_needs_a_class() -> None:
    found, _ = wanted(observer_class_names="orders", observer_orders_class="acme.audit.Orders")
    assert found["orders"].class_name == "acme.audit.Orders"
    found, problems = wanted(observer_class_names="orders,json-log")
    assert list(found) == ["json-log"], "the others go on"
    assert problems["orders"].startswith("observer.orders.class must name the class of orders: package.module.Class")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"filter.api.keys": "Produce,Brew"}, "filter.api.keys: Brew is not an API of this broker, such as Produce"),
        ({"filter.api.keys": "999"}, "filter.api.keys: 999 is not an API"),
        ({"filter.topics": "a"}, "filter.topics is not a filter; the filters are api.keys, listeners, principals,"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(config: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Filter.of(config)


def made(class_name: str, wanted: Filter = NO_FILTER) -> object:
    nowhere: Any = None
    return load(ObserverSpec("mine", class_name, {}, wanted, 0.001), nowhere)


def test_an_account_of_all_requests_is_kept_by_built_in_observers_alone_and_without_a_filter() -> None:
    with pytest.raises(ObserverLoadError, match="has record_call, which has no time limit"):
        made("tests.support.requests.plugin_observers.Accounting")
    with pytest.raises(ObserverLoadError, match="supports no filter"):
        made(BUILT_IN["audit-log"], Filter(topics=("orders",)))


def test_names_of_keys() -> None:
    assert split_observer_key("observer.orders.filter.listeners") == ("orders", "filter.listeners")
    for other in ("observer.class.names", "observer.orders", "observers.a.b", "observer.a b.c"):
        assert split_observer_key(other) is None
        assert observer_key(other) is None


def test_secrets_are_not_shown() -> None:
    for name in ("observer.x.hash.key", "observer.x.sasl.password", "observer.x.api.token"):
        key = observer_key(name)
        assert key is not None
        assert key.sensitive
    plain = observer_key("observer.x.path")
    assert plain is not None
    assert not plain.sensitive


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a b",), "a b is neither"),
        (("json-log", "json-log"), "json-log occurs twice"),
        (tuple(f"o{number}" for number in range(17)), "16 observers at most"),
        (("json-log", "acme.Orders", "mine"), None),
        ((), None),
    ],
)
def test_which_names_are_allowed(names: tuple[str, ...], why: str | None) -> None:
    problem = observer_names_problem(names)
    assert problem is None if why is None else why in str(problem)
