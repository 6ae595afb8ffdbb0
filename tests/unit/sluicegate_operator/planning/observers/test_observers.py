"""Observers: which are loaded, under which keys, the changes for that, and the resulting status."""

from datetime import UTC, datetime
from typing import Any

import pytest

from broker_runtime.config.keys.observers import BUILT_IN_OBSERVERS, split_observer_key
from broker_runtime.config.keys.observers import OBSERVERS_MAX as BROKERS_MAX
from broker_runtime.config.keys.requests import RequestConfig
from broker_runtime.observers.filters import Filter
from broker_runtime.observers.running.loading import BUILT_IN as BUILT_IN_CLASSES
from broker_runtime.wire.versions import FORMATS
from sluicegate_operator.api import BrokerCluster, ObserverPlugin, parse_resource
from sluicegate_operator.api.models.observer_plugin import BUILT_IN
from sluicegate_operator.planning.limits.limits import SetBrokerConfigs
from sluicegate_operator.planning.observers.api_keys import API_NUMBERS
from sluicegate_operator.planning.observers.observer_status import PluginReports, observer_status
from sluicegate_operator.planning.observers.observers import (
    CONFIG_BYTES_MAX,
    OBSERVERS_MAX,
    ObservedObservers,
    ObserverPlan,
    ObserverReport,
    PluginOutcome,
    PluginVerdict,
    diff_observers,
    nobody_lands,
    plan_observers,
    reports_on,
)
from tests.support.manifests.bad_manifests import cluster, observer

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LOADED = ObserverReport("Loaded")
FAILED = ObserverReport("Failed", "ModuleNotFoundError: No module named 'acme'")
ACCEPTED = PluginVerdict("orders", PluginOutcome.ACCEPTED)


def a_cluster() -> BrokerCluster:
    parsed = parse_resource(cluster())
    assert isinstance(parsed, BrokerCluster)
    return parsed


def a_plugin(metadata_name: str = "orders", created: int = 1, /, **spec: Any) -> ObserverPlugin:
    metadata = {"name": metadata_name, "creationTimestamp": f"2026-01-01T00:00:{created:02}Z", "generation": 4}
    parsed = parse_resource(observer(metadata_name, **spec) | {"metadata": metadata})
    assert isinstance(parsed, ObserverPlugin)
    return parsed


def plan(*plugins: ObserverPlugin) -> ObserverPlan:
    return plan_observers(a_cluster(), plugins)


def outcomes(planned: ObserverPlan) -> dict[str, PluginOutcome]:
    return {name: verdict.outcome for name, verdict in planned.verdicts.items()}


def test_everything_that_a_plugin_says_is_a_key_of_the_broker() -> None:
    orders = a_plugin(
        config={"path": "/tmp/x"}, budgetMicroseconds=200, filter={"apiKeys": ["Produce", "1"], "topicPrefixes": ["a."]}
    )
    planned = plan(orders, a_plugin("who", builtIn="audit-log", name="audit"))
    assert planned.configs == {
        "observer.class.names": "audit,orders",
        "observer.audit.class": "audit-log",
        "observer.orders.class": "acme.observers.Orders",
        "observer.orders.path": "/tmp/x",
        "observer.orders.budget.us": "200",
        "observer.orders.filter.api.keys": "Produce,1",
        "observer.orders.filter.topic.prefixes": "a.",
    }
    assert all(split_observer_key(key) for key in planned.configs if key != "observer.class.names")


@pytest.mark.parametrize("key", ["route.filter.topic.prefixes", "pre-filter.api.keys"])
def test_the_order_of_an_observers_own_list_may_mean_something(key: str) -> None:
    before, after = (plan(a_plugin(config={key: text})) for text in ("a,b", "b,a"))
    [action] = diff_observers(after.configs, {1: ObservedObservers(default=before.configs)})
    assert isinstance(action, SetBrokerConfigs)
    assert action.set == {f"observer.orders.{key}": "b,a"}


def test_the_order_of_a_filters_list_means_nothing() -> None:
    before, after = (plan(a_plugin(filter={"topicPrefixes": items})) for items in (["a", "b"], ["b", "a"]))
    assert diff_observers(after.configs, {1: ObservedObservers(default=before.configs)}) == []


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("apiKeys", ["Produce", "ListOffsets"], ["0", "LIST_OFFSETS"]),
        ("apiKeys", ["produce", "list_offsets"], ["02", "PRODUCE", "0"]),
        ("listeners", ["EXTERNAL"], ["external"]),
    ],
)
def test_another_spelling_of_an_item_of_a_filter_reconfigures_no_observer(
    field: str, one: list[str], other: list[str]
) -> None:
    before, after = (plan(a_plugin(filter={field: items})) for items in (one, other))
    assert diff_observers(after.configs, {1: ObservedObservers(default=before.configs)}) == []
    parsed = [
        Filter.of({key.removeprefix("observer.orders."): text for key, text in each.configs.items() if "filter" in key})
        for each in (before, after)
    ]
    assert parsed[0] == parsed[1], "they are the same to the broker"


@pytest.mark.parametrize("field", ["principals", "topicPrefixes"])
def test_the_case_of_principals_and_topics_in_a_filter_means_something(field: str) -> None:
    before, after = (plan(a_plugin(filter={field: items})) for items in (["User:a"], ["user:a"]))
    assert diff_observers(after.configs, {1: ObservedObservers(default=before.configs)}) != []


def test_apis_are_the_brokers() -> None:
    assert set(API_NUMBERS.values()) == set(FORMATS)
    for name, number in API_NUMBERS.items():
        assert Filter.of({"filter.api.keys": name}).api_keys == {number}


def test_what_the_operator_knows_of_the_broker_is_so() -> None:
    assert BUILT_IN == BUILT_IN_OBSERVERS == tuple(sorted(BUILT_IN_CLASSES))
    assert OBSERVERS_MAX == BROKERS_MAX


def test_without_plugins_there_are_no_keys_at_all() -> None:
    assert plan().configs == {}


def test_of_two_with_one_name_the_older_is_loaded() -> None:
    planned = plan(a_plugin("new", 2, name="orders"), a_plugin("orders", 1))
    assert outcomes(planned) == {"orders": PluginOutcome.ACCEPTED, "new": PluginOutcome.NAME_TAKEN}
    assert "ObserverPlugin orders is older" in planned.verdicts["new"].message


def test_a_cluster_has_one_audit_log() -> None:
    planned = plan(
        a_plugin("trail", 2, builtIn="audit-log"),
        a_plugin("audit", 1, builtIn="audit-log"),
        a_plugin("elsewhere", 3, builtIn="audit-log", config={"spool.dir": "/mine"}),
    )
    accepted = {"audit": PluginOutcome.ACCEPTED, "elsewhere": PluginOutcome.ACCEPTED}
    assert outcomes(planned) == {"trail": PluginOutcome.NAME_TAKEN, **accepted}
    assert "ObserverPlugin audit is older" in planned.verdicts["trail"].message


@pytest.mark.parametrize(
    ("one", "another"),
    [
        (None, ""),
        (None, "/var/lib/sluicegate/data/audit"),
        ("", "//var/lib/sluicegate/data/./audit/"),
        ("/spools/a", "/spools/a/"),
        ("/spools/a", "/spools/b/../a"),
    ],
)
def test_two_spellings_of_a_folder_are_one_folder_for_spools(one: str | None, another: str) -> None:
    first = {} if one is None else {"config": {"spool.dir": one}}
    planned = plan(
        a_plugin("audit", 1, builtIn="audit-log", **first),
        a_plugin("trail", 2, builtIn="audit-log", config={"spool.dir": another}),
    )
    assert outcomes(planned) == {"audit": PluginOutcome.ACCEPTED, "trail": PluginOutcome.NAME_TAKEN}


@pytest.mark.parametrize(
    ("config", "notes"),
    [
        (None, True),
        ({"spool.dir": ""}, True),
        ({"spool.dir": "/var/lib/sluicegate/data/audit/"}, True),
        ({"spool.dir": "/mine"}, False),
    ],
)
def test_the_folder_that_nobody_lands_is_known_in_any_spelling(config: dict[str, str] | None, notes: bool) -> None:
    plugin = a_plugin("audit", 1, builtIn="audit-log", **({} if config is None else {"config": config}))
    assert bool(nobody_lands(a_cluster(), plugin)) is notes


def test_one_that_is_not_enabled_is_nowhere_and_takes_no_name() -> None:
    planned = plan(a_plugin("orders", 1, enabled=False), a_plugin("new", 2, name="orders"))
    assert outcomes(planned) == {"orders": PluginOutcome.DISABLED, "new": PluginOutcome.ACCEPTED}


def test_a_broker_has_no_more_than_it_can() -> None:
    planned = plan(*(a_plugin(f"o{number}", number) for number in range(OBSERVERS_MAX + 1)))
    assert outcomes(planned)[f"o{OBSERVERS_MAX}"] is PluginOutcome.TOO_MANY
    assert len(planned.configs["observer.class.names"].split(",")) == OBSERVERS_MAX


def test_an_oversized_observer_configuration_leaves_room_for_the_others() -> None:
    large = {f"k{number}": "x" * 4000 for number in range(9)}
    planned = plan(a_plugin("large", 1, config=large), a_plugin("orders", 2))
    assert outcomes(planned) == {"large": PluginOutcome.TOO_LARGE, "orders": PluginOutcome.ACCEPTED}
    assert RequestConfig.sluicegate_request_max_bytes.default > OBSERVERS_MAX * CONFIG_BYTES_MAX


def test_plugins_of_other_or_missing_clusters_are_not_loaded() -> None:
    assert plan(a_plugin(clusterRef={"name": "bank"})).verdicts == {}
    assert outcomes(plan_observers(None, [a_plugin()])) == {"orders": PluginOutcome.CLUSTER_MISSING}


def test_differing_keys_are_set_unwanted_ones_removed_and_overrides_deleted() -> None:
    wanted = plan(a_plugin()).configs
    there = ObservedObservers(default=wanted)
    assert diff_observers(wanted, {0: there, 1: there}) == []
    by_hand = ObservedObservers(
        default={**wanted, "observer.class.names": "orders,mine", "observer.mine.class": "a.B"},
        own={"observer.orders.class": "x.Y"},
    )
    assert diff_observers(wanted, {0: there, 1: by_hand}) == [
        SetBrokerConfigs(None, {"observer.class.names": "orders"}, ("observer.mine.class",)),
        SetBrokerConfigs(1, {}, ("observer.orders.class",)),
    ]


def test_while_a_plugin_cannot_be_read_nothing_is_taken_away() -> None:
    wanted = plan(a_plugin()).configs
    there = ObservedObservers(default={"observer.class.names": "mine", "observer.mine.class": "a.B"})
    assert diff_observers(wanted, {0: there}, keeps=True) == [
        SetBrokerConfigs(
            None, {"observer.class.names": "mine,orders", "observer.orders.class": "acme.observers.Orders"}
        )
    ]


def test_a_brokers_report_counts_once_it_has_the_configuration() -> None:
    planned = plan(a_plugin(config={"path": "/new"}))
    old = {**planned.configs, "observer.orders.path": "/old"}
    observed = {
        0: ObservedObservers(default=planned.configs, reports={"orders": LOADED}),
        1: ObservedObservers(default=old, reports={"orders": LOADED}),
    }
    found = reports_on(planned, "orders", (0, 1, 2), observed)
    assert {broker_id: report.state for broker_id, report in found.items()} == {0: "Loaded", 1: "Loading"}


@pytest.mark.parametrize(
    ("reports", "state", "ready", "reason", "says"),
    [
        ({0: LOADED, 1: LOADED}, "Loaded", "True", "Loaded", "loaded by all 2 brokers"),
        ({0: LOADED, 1: FAILED}, "Failed", "False", "Failed", "broker 1: ModuleNotFoundError: No module named 'acme'"),
        ({0: LOADED}, "Unknown", "False", "Applying", "broker 1: the broker does not answer (timed out)"),
        ({0: LOADED, 1: ObserverReport("Loading", "it is being loaded")}, "Loading", "False", "Loading", "1/2"),
        ({0: LOADED, 1: ObserverReport("Suspended", "too slow")}, "Suspended", "False", "Suspended", "too slow"),
        ({0: LOADED, 1: ObserverReport("Loaded", "3 dropped")}, "Loaded", "True", "Loaded", "broker 1: 3 dropped"),
    ],
)
def test_the_status_shows_the_state_of_the_worst_broker(
    reports: dict[int, ObserverReport], state: str, ready: str, reason: str, says: str
) -> None:
    status = observer_status(a_plugin(), ACCEPTED, PluginReports((0, 1), reports, error="timed out"), NOW)
    found = status.condition("Ready")
    assert found is not None
    assert (status.state, found.status, found.reason) == (state, ready, reason)
    assert says in found.message
    assert status.observes == "acme.observers.Orders"
    assert status.broker_states[0].state == state
    stalled = status.condition("Stalled")
    assert stalled is not None
    assert (stalled.status == "True") == (state == "Failed")


def test_a_failure_during_the_roll_for_its_code_is_not_final() -> None:
    reports = PluginReports((0, 1), {0: LOADED, 1: FAILED}, rolling=True)
    status = observer_status(a_plugin(), ACCEPTED, reports, NOW)
    ready, stalled = status.condition("Ready"), status.condition("Stalled")
    assert ready is not None
    assert stalled is not None
    assert (status.delivery, ready.reason, stalled.status) == ("Roll", "Rolling", "False")


def test_a_configuration_that_brokers_refuse_needs_a_person() -> None:
    status = observer_status(a_plugin(), ACCEPTED, PluginReports((0,), {0: LOADED}, refused="INVALID_CONFIG: no"), NOW)
    stalled = status.condition("Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.message) == ("True", "INVALID_CONFIG: no")


def test_a_disabled_plugin_is_ready() -> None:
    verdict = PluginVerdict("orders", PluginOutcome.DISABLED, "spec.enabled is false")
    status = observer_status(a_plugin(enabled=False), verdict, PluginReports(), NOW)
    ready = status.condition("Ready")
    assert ready is not None
    assert (status.state, status.brokers, ready.status) == ("Disabled", "", "True")
