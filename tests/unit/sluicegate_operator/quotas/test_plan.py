"""Precedence between quotas, Kafka's keys, and the actions that bring brokers to the desired limits."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.planning.limits.limits import (
    DesiredLimits,
    LimitKey,
    ObservedLimits,
    QuotaKey,
    SetBrokerConfigs,
    SetQuota,
    ip_rate,
    ip_rates,
    is_limit_key,
)
from sluicegate_operator.quotas.model import strictest
from sluicegate_operator.quotas.model.quota_keys import while_open
from sluicegate_operator.quotas.model.targets import LimitField, Limits, TargetKey, TargetKind
from sluicegate_operator.quotas.model.verdicts import QuotaOutcome
from sluicegate_operator.quotas.plan import QuotaPlan, plan_quotas
from tests.support.manifests.bad_manifests import cluster, external, listener, quota
from tests.support.manifests.quota_manifests import adaptive
from tests.support.oracles.limits_model import apply_actions, diff_limits

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
EXTERNAL_RATE = "listener.name.external.max.connection.creation.rate"


def a_cluster(document: dict[str, Any] | None = None) -> BrokerCluster:
    parsed = parse_resource(document or cluster())
    assert isinstance(parsed, BrokerCluster)
    return parsed


def a_listener() -> BrokerListener:
    parsed = parse_resource(listener())
    assert isinstance(parsed, BrokerListener)
    return parsed


def a_quota(name: str, target: dict[str, Any], age: int = 0, **limits: Any) -> ConnectionQuota:
    """A quota; `age` in hours."""
    document = quota(target, **limits)
    created = (EPOCH - timedelta(hours=age)).isoformat()
    parsed = parse_resource(document | {"metadata": {"name": name, "creationTimestamp": created}})
    assert isinstance(parsed, ConnectionQuota)
    return parsed


def plan(*quotas: ConnectionQuota, of: BrokerCluster | None = None) -> QuotaPlan:
    return plan_quotas(of or a_cluster(), [a_listener()], quotas)


@pytest.mark.parametrize(
    ("target", "limits", "configs", "rates"),
    [
        pytest.param(
            {"broker": {}},
            {"maxConnectionCreationRate": 7, "maxConnections": 9},
            {"max.connection.creation.rate": "7", "max.connections": "9"},
            {},
            id="a limit of the broker is two unprefixed keys",
        ),
        pytest.param(
            {"listener": "EXTERNAL"},
            {"adaptive": adaptive(50, 2000, "20ms"), "maxConnections": 80},
            {
                EXTERNAL_RATE: "2000",
                "listener.name.external.connection.quota.adaptive.min.rate": "50",
                "listener.name.external.connection.quota.adaptive.p99.ms": "20",
                "listener.name.external.max.connections": "80",
            },
            {},
            id="an adaptive rate has its maximum under Kafka's key",
        ),
        pytest.param(
            {"broker": {}},
            {"adaptive": adaptive(50, 2000, "20ms")},
            {
                "max.connection.creation.rate": "2000",
                "connection.quota.adaptive.min.rate": "50",
                "connection.quota.adaptive.p99.ms": "20",
            },
            {},
            id="an adaptive rate of the broker has no prefix",
        ),
        pytest.param(
            {"listener": "EXTERNAL"},
            {"maxConnectionCreationRate": 300, "maxConnections": 80, "scope": "Cluster"},
            {
                EXTERNAL_RATE: "300",
                "listener.name.external.connection.quota.scope": "cluster",
                "listener.name.external.max.connections": "80",
            },
            {},
            id="a rate of the cluster has a scope",
        ),
        pytest.param(
            {"broker": {}},
            {"maxConnectionCreationRate": 300, "scope": "Cluster"},
            {"max.connection.creation.rate": "300", "connection.quota.scope": "cluster"},
            {},
            id="a rate of all listeners of the cluster has no prefix",
        ),
        pytest.param(
            {"listener": "EXTERNAL"},
            {"maxConnectionCreationRate": 50, "maxConnections": 80},
            {EXTERNAL_RATE: "50", "listener.name.external.max.connections": "80"},
            {},
            id="a limit of a listener is prefixed with its name in lower case",
        ),
        pytest.param(
            {"ip": "127.0.1.7"},
            {"maxConnectionCreationRate": 5, "maxConnections": 3},
            {"max.connections.per.ip.overrides": "127.0.1.7:3"},
            {"127.0.1.7": 5.0},
            id="a rate of an address is a quota entity, a count an override",
        ),
        pytest.param(
            {"ip": "2001:DB8:0::7"},
            {"maxConnectionCreationRate": 5},
            {},
            {"2001:db8::7": 5.0},
            id="an address is written in its canonical form",
        ),
        pytest.param(
            {"defaultIp": {}},
            {"maxConnectionCreationRate": 5, "maxConnections": 3},
            {"max.connections.per.ip": "3"},
            {None: 5.0},
            id="a limit of all addresses is the default entity and key",
        ),
    ],
)
def test_one_quota_alone(
    target: dict[str, Any], limits: dict[str, int], configs: dict[str, str], rates: dict[str | None, float]
) -> None:
    made = plan(a_quota("q", target, **limits))
    assert made.desired == DesiredLimits(configs, ip_rates(rates))
    assert made.verdicts["q"].outcome is QuotaOutcome.ACCEPTED
    assert all(is_limit_key(key) for key in configs)


def test_overrides_of_several_addresses_are_one_key_in_order() -> None:
    made = plan(
        a_quota("b", {"ip": "10.0.0.2"}, maxConnections=2),
        a_quota("a", {"ip": "10.0.0.1"}, maxConnections=1),
    )
    assert made.desired.configs == {"max.connections.per.ip.overrides": "10.0.0.1:1,10.0.0.2:2"}


def test_the_stricter_of_two_quotas_is_enforced_and_the_other_says_so() -> None:
    made = plan(
        a_quota("loose", {"listener": "EXTERNAL"}, age=9, maxConnectionCreationRate=50),
        a_quota("strict", {"listener": "EXTERNAL"}, maxConnectionCreationRate=20),
    )
    assert made.desired.configs == {EXTERNAL_RATE: "20"}
    assert made.verdicts["strict"].outcome is QuotaOutcome.ACCEPTED
    assert made.verdicts["loose"].outcome is QuotaOutcome.CONFLICTED
    assert "maxConnectionCreationRate 20 of ConnectionQuota strict" in made.verdicts["loose"].message


def test_each_field_has_its_own_winner() -> None:
    made = plan(
        a_quota("a", {"broker": {}}, maxConnectionCreationRate=10, maxConnections=90),
        a_quota("b", {"broker": {}}, maxConnectionCreationRate=20, maxConnections=30),
    )
    assert made.limits == {TargetKey(TargetKind.BROKER): Limits(10, 30)}
    assert made.verdicts["a"].outcome is made.verdicts["b"].outcome is QuotaOutcome.ACCEPTED
    assert [lost.winner for lost in made.verdicts["a"].conflicts] == ["b"]
    assert [lost.winner for lost in made.verdicts["b"].conflicts] == ["a"]


def test_fields_that_only_one_of_two_quotas_has_do_not_clash() -> None:
    made = plan(
        a_quota("rate", {"broker": {}}, maxConnectionCreationRate=10),
        a_quota("count", {"broker": {}}, maxConnections=30),
    )
    assert made.limits == {TargetKey(TargetKind.BROKER): Limits(10, 30)}
    assert not any(verdict.conflicts for verdict in made.verdicts.values())


@pytest.mark.parametrize(
    ("first_age", "second_age", "winner"),
    [
        pytest.param(1, 2, "b", id="of equal quotas the oldest wins"),
        pytest.param(2, 2, "a", id="of equally old ones the first by name wins"),
    ],
)
def test_ties(first_age: int, second_age: int, winner: str) -> None:
    made = plan(
        a_quota("a", {"ip": "10.0.0.1"}, age=first_age, maxConnectionCreationRate=10),
        a_quota("b", {"ip": "10.0.0.1"}, age=second_age, maxConnectionCreationRate=10),
    )
    accepted = [name for name, verdict in made.verdicts.items() if verdict.outcome is QuotaOutcome.ACCEPTED]
    assert accepted == [winner]


def test_two_spellings_of_one_address_are_one_target() -> None:
    made = plan(
        a_quota("a", {"ip": "2001:db8::7"}, maxConnectionCreationRate=10),
        a_quota("b", {"ip": "2001:0db8:0:0::7"}, maxConnectionCreationRate=20),
    )
    assert made.verdicts["b"].outcome is QuotaOutcome.CONFLICTED


def test_a_missing_cluster_is_told_by_name() -> None:
    made = plan_quotas(None, [], [a_quota("q", {"broker": {}}, maxConnections=1)])
    assert made.verdicts["q"].outcome is QuotaOutcome.CLUSTER_MISSING
    assert "BrokerCluster shop does not exist in namespace default" in made.verdicts["q"].message


def test_a_missing_listener_is_told_by_name_and_limits_nothing() -> None:
    made = plan(a_quota("q", {"listener": "OTHER"}, maxConnections=1))
    assert made.verdicts["q"].outcome is QuotaOutcome.LISTENER_MISSING
    assert "spec.name OTHER" in made.verdicts["q"].message
    assert made.desired == DesiredLimits()


def test_the_limits_of_a_listener_that_was_deleted_stay_until_no_broker_has_it_open() -> None:
    quotas = [a_quota("q", {"listener": "EXTERNAL"}, maxConnectionCreationRate=5), a_quota("b", {"broker": {}})]
    made = plan_quotas(a_cluster(), [], quotas)
    assert made.verdicts["q"].outcome is QuotaOutcome.LISTENER_MISSING
    has_it = ObservedLimits({EXTERNAL_RATE: "5"}, listeners=frozenset({"INTERNAL", "EXTERNAL"}))
    has_it_no_more = replace(has_it, listeners=frozenset({"INTERNAL"}))
    before = dict.fromkeys(range(2), has_it)
    half = before | {0: has_it_no_more}
    for seen in (before, half):
        wanted = while_open(made.desired, made.closing, {"INTERNAL", "EXTERNAL"})
        assert wanted == DesiredLimits({EXTERNAL_RATE: "5"})
        assert diff_limits(wanted, seen) == []
    after = dict.fromkeys(range(2), has_it_no_more)
    wanted = while_open(made.desired, made.closing, {"INTERNAL"})
    assert diff_limits(wanted, after) == [SetBrokerConfigs(None, {}, (EXTERNAL_RATE,))]
    assert plan_quotas(a_cluster(), [], []).closing == {}, "the limits go with their ConnectionQuota"


def test_an_expired_quota_is_not_set_again_while_its_listener_closes() -> None:
    ended = a_quota("ended", {"listener": "EXTERNAL"}, maxConnectionCreationRate=5, expiresAt="2026-01-01T00:00:00Z")
    lasting = a_quota("lasting", {"listener": "EXTERNAL"}, maxConnectionCreationRate=9)
    at = TargetKey(TargetKind.LISTENER, "EXTERNAL")
    assert plan_quotas(a_cluster(), [], [ended], EPOCH).closing == {}
    assert plan_quotas(a_cluster(), [], [ended, lasting], EPOCH).closing == {at: Limits(rate=9)}
    before = plan_quotas(a_cluster(), [], [ended, lasting], EPOCH - timedelta(hours=1))
    assert before.closing == {at: Limits(rate=5)}


def test_the_listeners_of_a_cluster_elsewhere_are_not_known_and_are_trusted() -> None:
    elsewhere = BrokerCluster.model_validate_json(json.dumps(external()))
    made = plan(a_quota("q", {"listener": "OTHER"}, maxConnections=1), of=elsewhere)
    assert made.verdicts["q"].outcome is QuotaOutcome.ACCEPTED


@pytest.mark.parametrize("change", [{"name": "bank"}], ids=["quotas of another cluster are left out"])
def test_other_clusters(change: dict[str, str]) -> None:
    stranger = parse_resource(quota(clusterRef=change, maxConnections=1))
    assert isinstance(stranger, ConnectionQuota)
    assert plan(stranger).verdicts == {}


def test_a_quota_that_is_being_deleted_limits_nothing() -> None:
    document = quota(maxConnections=1)
    going = parse_resource(document | {"metadata": {"name": "q", "deletionTimestamp": EPOCH.isoformat()}})
    assert isinstance(going, ConnectionQuota)
    assert plan(going).desired == DesiredLimits()


DESIRED = DesiredLimits({"max.connections": "9"}, ip_rates({"10.0.0.1": 5.0}))
IN_FORCE = ObservedLimits(default={"max.connections": "9"}, quotas=ip_rates({"10.0.0.1": 5.0}))


@pytest.mark.parametrize(
    ("observed", "actions"),
    [
        pytest.param({0: IN_FORCE, 1: IN_FORCE}, [], id="brokers that are there need nothing"),
        pytest.param({}, [], id="without a broker nobody can be told"),
        pytest.param(
            {0: ObservedLimits()},
            [SetBrokerConfigs(None, {"max.connections": "9"}), SetQuota(ip_rate("10.0.0.1"), 5.0)],
            id="a new broker is told everything through the cluster's default",
        ),
        pytest.param(
            {0: IN_FORCE, 1: ObservedLimits({"max.connections": "3"}, {}, IN_FORCE.quotas)},
            [SetBrokerConfigs(None, {"max.connections": "9"})],
            id="one broker that lags is enough to say it again",
        ),
        pytest.param(
            {
                0: ObservedLimits(
                    {"max.connections": "9", EXTERNAL_RATE: "1"}, {}, ip_rates({"10.0.0.1": 5.0, None: 2.0})
                )
            },
            [SetBrokerConfigs(None, {}, (EXTERNAL_RATE,)), SetQuota(ip_rate(None), None)],
            id="limits that nobody asked for are lifted",
        ),
        pytest.param(
            {2: ObservedLimits({"max.connections": "9"}, {"max.connections": "1"}, IN_FORCE.quotas)},
            [SetBrokerConfigs(2, {}, ("max.connections",))],
            id="somebody's override on one broker is taken away",
        ),
        pytest.param(
            {0: ObservedLimits({"max.connections": "9", "log.retention.ms": "1"}, {"x": "1"}, IN_FORCE.quotas)},
            [],
            id="configuration that is no limit is left alone",
        ),
        pytest.param(
            {
                0: ObservedLimits(
                    {"max.connections": "9", "max.connection.creation.rate.per.ip": "4"}, {}, IN_FORCE.quotas
                )
            },
            [SetBrokerConfigs(None, {}, ("max.connection.creation.rate.per.ip",))],
            id="the seed's key is lifted too",
        ),
    ],
)
def test_the_difference(observed: dict[int, ObservedLimits], actions: list[object]) -> None:
    assert diff_limits(DESIRED, observed) == actions


def test_an_external_cluster_keeps_limits_of_others_and_loses_ours() -> None:
    desired = DesiredLimits({"max.connections": "9"}, {}, exclusive=False)
    seen = ObservedLimits(
        {"max.connections": "9", "max.connection.creation.rate": "5", EXTERNAL_RATE: "1"},
        {},
        ip_rates({"10.0.0.1": 5.0, None: 1}),
    )
    released: list[LimitKey] = [EXTERNAL_RATE, ip_rate(None)]
    assert diff_limits(desired, {0: seen}, released) == [
        SetBrokerConfigs(None, {}, (EXTERNAL_RATE,)),
        SetQuota(ip_rate(None), None),
    ]


RATED = {"maxConnectionCreationRate": 5}


@pytest.mark.parametrize(
    ("target", "limits", "keys"),
    [
        ({"listener": "EXTERNAL"}, RATED, {EXTERNAL_RATE}),
        ({"listener": "EXTERNAL"}, {"maxConnections": 5}, {"listener.name.external.max.connections"}),
        ({"ip": "127.0.1.7"}, RATED, {ip_rate("127.0.1.7")}),
        ({"defaultIp": {}}, RATED, {ip_rate(None)}),
        ({"ip": "127.0.1.7"}, {"maxConnections": 5}, {"max.connections.per.ip.overrides"}),
    ],
)
def test_what_brokers_must_have_for_a_quota_to_be_in_force(
    target: dict[str, Any], limits: dict[str, int], keys: set[LimitKey]
) -> None:
    made = plan(a_quota("one", target, **limits), a_quota("other", {"broker": {}}, maxConnections=7))
    assert set(made.keys("one")) == keys
    assert all(made.desired.value(key) is not None for key in keys)


LIMIT_KEY_NAMES = st.sampled_from(
    [
        "max.connections",
        "max.connection.creation.rate",
        "max.connections.per.ip",
        EXTERNAL_RATE,
        "max.connections.per.ip.overrides",
    ]
)
VALUES = st.integers(1, 5).map(str)
CONFIGS = st.dictionaries(LIMIT_KEY_NAMES, VALUES)
OTHERS = st.dictionaries(st.sampled_from(["log.retention.ms", "num.partitions"]), VALUES)
RATES = st.dictionaries(st.sampled_from([None, "10.0.0.1", "2001:db8::7"]).map(ip_rate), st.integers(1, 5).map(float))


@st.composite
def observed_limits(draw: st.DrawFn) -> ObservedLimits:
    return ObservedLimits(draw(CONFIGS) | draw(OTHERS), draw(CONFIGS) | draw(OTHERS), draw(RATES))


@given(CONFIGS, RATES, st.dictionaries(st.integers(0, 3), observed_limits(), min_size=1))
def test_applying_the_difference_reaches_what_is_desired_and_stays(
    configs: dict[str, str], rates: dict[QuotaKey, float], observed: dict[int, ObservedLimits]
) -> None:
    desired = DesiredLimits(configs, rates)
    after = apply_actions(diff_limits(desired, observed), observed)
    assert diff_limits(desired, after) == []
    for broker_id, view in after.items():
        limits = {key: value for key, value in {**view.default, **view.own}.items() if is_limit_key(key)}
        assert limits == configs
        assert dict(view.quotas) == rates
        untouched = {key: value for key, value in observed[broker_id].own.items() if not is_limit_key(key)}
        assert view.own == untouched


@given(CONFIGS, RATES, st.dictionaries(st.integers(0, 3), observed_limits(), min_size=1))
def test_a_cluster_elsewhere_gets_what_is_desired_and_loses_nothing_else(
    configs: dict[str, str], rates: dict[QuotaKey, float], observed: dict[int, ObservedLimits]
) -> None:
    desired = DesiredLimits(configs, rates, exclusive=False)
    after = apply_actions(diff_limits(desired, observed), observed)
    assert diff_limits(desired, after) == []
    for broker_id, view in after.items():
        assert view.default == {**observed[broker_id].default, **configs}
        assert dict(view.quotas) == {**observed[broker_id].quotas, **rates}


def test_planning_many_quotas_on_one_target_looks_at_each_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(one: ConnectionQuota, limit: LimitField) -> int | None:
        nonlocal looks
        looks += 1
        return limit_of(one, limit)

    limit_of = strictest.limit_of
    monkeypatch.setattr(strictest, "limit_of", counted)
    rivals = [a_quota(f"q{number}", {"broker": {}}, maxConnectionCreationRate=number + 1) for number in range(200)]
    assert len(plan(*rivals).verdicts) == 200
    assert looks <= 4 * len(rivals)


def test_brokers_that_no_client_can_reach_are_not_limited() -> None:
    """Brokers would lock out each other and the operator: the inter-broker listener is protected beside another one."""
    targets: list[dict[str, Any]] = [{"broker": {}}, {"defaultIp": {}}]
    quotas = [a_quota(f"q{at}", target, maxConnections=1) for at, target in enumerate(targets)]
    made = plan_quotas(a_cluster(), [], quotas)
    assert (dict(made.desired.configs), dict(made.desired.quotas)) == ({}, {})
    assert {verdict.outcome for verdict in made.verdicts.values()} == {QuotaOutcome.LISTENER_MISSING}
    assert "has no BrokerListener" in made.verdicts["q0"].message
    assert plan_quotas(a_cluster(), [a_listener()], quotas).desired.configs["max.connections"] == "1"


ADAPTIVE_P99 = "listener.name.external.connection.quota.adaptive.p99.ms"


def test_of_a_fixed_and_an_adaptive_rate_the_one_with_the_lower_maximum_is_enforced() -> None:
    adapts = a_quota("adapts", {"listener": "EXTERNAL"}, age=1, adaptive=adaptive(50, 2000))
    for fixed, winner, adapting in ((100, "fixed", False), (2001, "adapts", True)):
        found = plan(adapts, a_quota("fixed", {"listener": "EXTERNAL"}, maxConnectionCreationRate=fixed))
        assert found.desired.configs[EXTERNAL_RATE] == str(min(fixed, 2000))
        assert (ADAPTIVE_P99 in found.desired.configs) is adapting
        loser = found.verdicts["fixed" if adapting else "adapts"]
        field = "adaptive.maxRate 2000" if adapting else "maxConnectionCreationRate 100"
        assert f"{field} of ConnectionQuota {winner}" in loser.message
        outcomes = {name: verdict.outcome for name, verdict in found.verdicts.items()}
        assert outcomes == dict.fromkeys(("adapts", "fixed"), QuotaOutcome.CONFLICTED) | {winner: QuotaOutcome.ACCEPTED}


def test_a_cluster_of_apache_kafka_has_no_adaptive_rates() -> None:
    found = plan(a_quota("adapts", {"broker": {}}, adaptive=adaptive()), of=a_cluster(external()))
    verdict = found.verdicts["adapts"]
    assert verdict.outcome is QuotaOutcome.UNSUPPORTED
    assert verdict.message.endswith("has no adaptive rates; set maxConnectionCreationRate")
    assert found.desired.configs == {}


def test_the_operator_owns_the_keys_of_adaptive_rates() -> None:
    assert is_limit_key(ADAPTIVE_P99)
    assert is_limit_key("connection.quota.adaptive.min.rate")


SCOPE = "listener.name.external.connection.quota.scope"


def test_of_a_rate_of_the_cluster_and_one_of_each_broker_the_lower_number_is_enforced() -> None:
    shares = a_quota("shares", {"listener": "EXTERNAL"}, age=1, maxConnectionCreationRate=300, scope="Cluster")
    for each, winner in ((299, "each"), (300, "shares"), (301, "shares")):
        older = a_quota("each", {"listener": "EXTERNAL"}, age=9, maxConnectionCreationRate=each)
        found = plan(shares, older)
        assert found.desired.configs[EXTERNAL_RATE] == str(min(each, 300))
        assert found.desired.configs.get(SCOPE) == ("cluster" if winner == "shares" else None)
        assert found.verdicts[winner].outcome is QuotaOutcome.ACCEPTED
        (lost,) = (verdict for name, verdict in found.verdicts.items() if name != winner)
        assert lost.outcome is QuotaOutcome.CONFLICTED
        if winner == "shares":
            assert "the cluster's maxConnectionCreationRate 300 of ConnectionQuota shares" in lost.message


def test_of_an_adaptive_rate_and_one_of_the_cluster_brokers_get_the_keys_of_one() -> None:
    shares = a_quota("shares", {"listener": "EXTERNAL"}, maxConnectionCreationRate=300, scope="Cluster")
    for most, keys in ((2000, {SCOPE}), (200, {ADAPTIVE_P99, ADAPTIVE_P99.replace("p99.ms", "min.rate")})):
        found = plan(shares, a_quota("adapts", {"listener": "EXTERNAL"}, adaptive=adaptive(50, most)))
        assert found.desired.configs.keys() == {EXTERNAL_RATE, *keys}


def test_a_rate_of_the_cluster_that_becomes_one_of_each_broker_loses_its_scope() -> None:
    target = {"listener": "EXTERNAL"}
    shares = plan(a_quota("one", target, maxConnectionCreationRate=300, scope="Cluster")).desired
    alone = plan(a_quota("one", target, maxConnectionCreationRate=100)).desired
    seen = {0: ObservedLimits(default=shares.configs)}
    assert [str(action) for action in diff_limits(alone, seen)] == [
        f"all brokers: {EXTERNAL_RATE}=100, {SCOPE} removed"
    ]


@pytest.mark.parametrize(
    "target",
    [{"broker": {}}, {"listener": "EXTERNAL"}, {"ip": "10.0.0.1"}, {"cidr": "10.0.0.0/8"}],
    ids=str,
)
def test_a_cluster_of_apache_kafka_has_no_rate_of_all_brokers(target: dict[str, Any]) -> None:
    shared: dict[str, Any] = {"limitIs": "Shared"} if "cidr" in target else {}
    quota = a_quota("shares", target, maxConnectionCreationRate=300, scope="Cluster", **shared)
    found = plan(quota, of=a_cluster(external()))
    verdict = found.verdicts["shares"]
    assert verdict.outcome is QuotaOutcome.UNSUPPORTED
    assert "has no rates of all brokers together; remove scope" in verdict.message
    assert found.desired == DesiredLimits(exclusive=False)


def test_the_operator_owns_the_key_of_the_scope() -> None:
    assert is_limit_key(SCOPE)
    assert is_limit_key("connection.quota.scope")
    assert not is_limit_key("connection.quota.strategy")
