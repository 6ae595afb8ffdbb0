"""Quotas on ranges and workloads, observed ones and ones that expire: their limits on brokers."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.planning.limits.connection_groups import group_limits, membership, number_of_pod
from sluicegate_operator.planning.limits.limits import DesiredLimits, LimitKey, ObservedLimits, QuotaKey, ip_rate
from sluicegate_operator.planning.limits.order import in_phases
from sluicegate_operator.quotas.kept_limits import Keep, differing, keep_limits
from sluicegate_operator.quotas.model.targets import Limits, TargetKey, TargetKind
from sluicegate_operator.quotas.model.verdicts import QuotaOutcome, pods_unknown
from sluicegate_operator.quotas.plan import QuotaPlan
from tests.support.manifests.bad_manifests import cluster, listener, quota
from tests.support.manifests.quota_manifests import adaptive, of_pods
from tests.support.oracles.limits_model import apply_actions, diff_limits, group_of, listed, member_of
from tests.support.worlds.planned_quotas import PlannedQuotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXTERNAL_RATE = "listener.name.external.max.connection.creation.rate"
GENERATIONS = iter(range(1, 1_000_000))
A, B = number_of_pod("a"), number_of_pod("b")


def a_cluster() -> BrokerCluster:
    parsed = parse_resource(cluster())
    assert isinstance(parsed, BrokerCluster)
    return parsed


def a_listener() -> BrokerListener:
    parsed = parse_resource(listener())
    assert isinstance(parsed, BrokerListener)
    return parsed


def a_quota(name: str, target: dict[str, Any], age: int = 0, **said: Any) -> ConnectionQuota:
    """A quota; `age` in hours. Each has another generation than all before it."""
    meta = {
        "name": name,
        "uid": name,
        "generation": next(GENERATIONS),
        "creationTimestamp": (NOW - timedelta(hours=age)).isoformat(),
    }
    parsed = parse_resource(quota(target, **said) | {"metadata": meta})
    assert isinstance(parsed, ConnectionQuota)
    return parsed


def updated(
    planner: PlannedQuotas, *quotas: ConnectionQuota, now: datetime = NOW, pod: float = A, **selected: Collection[str]
) -> PlannedQuotas:
    """The planner after an update.

    `selected`: by quota, the addresses of its pods if they have changed; all of one `pod`.
    """
    planner.changed_keys.clear()
    planner.changed_quotas.clear()
    planner.select({name: dict.fromkeys(addresses, pod) for name, addresses in selected.items()})
    for _ in planner.update(a_cluster(), [a_listener()], quotas, now):
        pass
    return planner


def plan(*quotas: ConnectionQuota) -> QuotaPlan:
    """The plan of these quotas, with workloads that select no pods."""
    nobody: dict[str, Any] = {one.name: () for one in quotas if one.spec.target.workload}
    return updated(PlannedQuotas(), *quotas, **nobody).plan


def groups(keys: Collection[LimitKey]) -> set[str]:
    return {name for key in keys if (name := group_of(key)) is not None}


def members(quotas: Mapping[Any, float], group: str) -> set[str]:
    return {member for key in quotas if group_of(key) == group and (member := member_of(key)) is not None}


@pytest.mark.parametrize(
    ("target", "said", "limits", "member"),
    [
        pytest.param(
            {"cidr": "10.0.0.0/8"},
            {"maxConnectionCreationRate": 5},
            group_limits("default/q", 5, None, shared=False, observe=False),
            "10.0.0.0/8",
            id="each address of a range",
        ),
        pytest.param(
            {"cidr": "2001:DB8::/32"},
            {"maxConnections": 9, "limitIs": "Shared"},
            group_limits("default/q", None, 9, shared=True, observe=False),
            "2001:db8::/32",
            id="a range together, in its canonical form",
        ),
        pytest.param(
            {"cidr": "10.0.0.1/32"},
            {"maxConnections": 9},
            group_limits("default/q", None, 9, shared=False, observe=False),
            "10.0.0.1",
            id="a range of one address is that address",
        ),
        pytest.param(
            {"ip": "10.0.0.1"},
            {"maxConnections": 9, "mode": "Observe"},
            group_limits("default/q", None, 9, shared=False, observe=True),
            "10.0.0.1",
            id="an observed address is a group of one",
        ),
        pytest.param(
            {"ip": "10.0.0.1"},
            {"maxConnectionCreationRate": 300, "maxConnections": 9, "scope": "Cluster"},
            group_limits("default/q", 300, 9, shared=True, observe=False, of_cluster=True),
            "10.0.0.1",
            id="an address with a rate of the cluster is a group of one",
        ),
        pytest.param(
            {"cidr": "10.0.0.0/8"},
            {"maxConnectionCreationRate": 300, "limitIs": "Shared", "scope": "Cluster"},
            group_limits("default/q", 300, None, shared=True, observe=False, of_cluster=True),
            "10.0.0.0/8",
            id="a range with a rate of the cluster",
        ),
    ],
)
def test_one_quota_alone(
    target: dict[str, Any], said: dict[str, Any], limits: Mapping[QuotaKey, float], member: str
) -> None:
    made = plan(a_quota("q", target, **said))
    assert made.desired == DesiredLimits({}, {**limits, **listed("default/q", member)})
    assert made.verdicts["q"].outcome is QuotaOutcome.ACCEPTED
    assert made.members == {"q": 1}
    assert set(made.keys("q")) == set(made.desired.quotas)


def test_the_stricter_of_two_quotas_on_one_range_wins_for_each_limit() -> None:
    made = plan(
        a_quota("old", {"cidr": "10.0.0.0/8"}, age=9, maxConnectionCreationRate=5, maxConnections=90),
        a_quota("new", {"cidr": "10.0.0.0/8"}, maxConnectionCreationRate=9, maxConnections=30),
        a_quota("loose", {"cidr": "10.0.0.0/8"}, maxConnections=50),
    )
    assert made.limits == {TargetKey(TargetKind.CIDR, "10.0.0.0/8"): Limits(5, 30)}
    assert made.desired.quotas == {
        **group_limits("default/old", 5, None, shared=False, observe=False),
        **listed("default/old", "10.0.0.0/8"),
        **group_limits("default/new", None, 30, shared=False, observe=False),
        **listed("default/new", "10.0.0.0/8"),
    }
    assert made.verdicts["loose"].outcome is QuotaOutcome.CONFLICTED
    assert "maxConnections 30 of ConnectionQuota new" in made.verdicts["loose"].message
    assert "loose" not in made.members


def test_limits_that_hold_beside_each_other_are_no_conflict() -> None:
    made = plan(
        a_quota("each", {"cidr": "10.0.0.0/8"}, maxConnections=5),
        a_quota("all", {"cidr": "10.0.0.0/8"}, maxConnections=90, limitIs="Shared"),
        a_quota("both", {"cidr": "10.0.0.0/8"}, maxConnectionCreationRate=9, limitIs="Shared", scope="Cluster"),
        a_quota("what-if", {"cidr": "10.0.0.0/8"}, maxConnections=2, mode="Observe"),
        a_quota("or", {"cidr": "10.0.0.0/8"}, maxConnections=1, mode="Observe"),
        a_quota("pods", of_pods(), maxConnections=5),
        a_quota("pods-too", of_pods(), maxConnections=4),
    )
    assert {verdict.outcome for verdict in made.verdicts.values()} == {QuotaOutcome.ACCEPTED}
    assert not any(verdict.conflicts for verdict in made.verdicts.values())
    assert groups(made.desired.quotas) == {f"default/{name}" for name in made.verdicts}


def test_an_observed_address_leaves_the_enforced_one_alone() -> None:
    made = plan(
        a_quota("enforced", {"ip": "10.0.0.1"}, maxConnectionCreationRate=50),
        a_quota("what-if", {"ip": "10.0.0.1"}, maxConnectionCreationRate=5, mode="Observe"),
    )
    assert made.desired.quotas[ip_rate("10.0.0.1")] == 50
    assert not made.verdicts["enforced"].conflicts


def test_an_added_or_deleted_pod_changes_one_key() -> None:
    pods = a_quota("pods", of_pods(), maxConnections=5)
    planner = updated(PlannedQuotas(), pods)
    assert planner.plan.verdicts == {"pods": pods_unknown(pods, TargetKey(TargetKind.WORKLOAD, "pods"))}
    assert planner.plan.desired == DesiredLimits()
    updated(planner, pods, pods={"10.0.0.1", "10.0.0.2"})
    assert planner.plan.verdicts["pods"].outcome is QuotaOutcome.ACCEPTED
    updated(planner, pods, pods={"10.0.0.2", "10.0.0.3"})
    assert planner.changed_keys == {*listed("default/pods", "10.0.0.1", "10.0.0.3")}
    assert planner.changed_quotas == {"pods"}
    assert members(planner.plan.desired.quotas, "default/pods") == {"10.0.0.2", "10.0.0.3"}
    assert planner.plan.members == {"pods": 2}
    updated(planner, pods)
    assert planner.changed_keys == set()


def test_an_address_that_another_pod_has_is_told_to_brokers_and_counted_once() -> None:
    pods = a_quota("pods", of_pods(), maxConnections=5)
    planner = updated(PlannedQuotas(), pods, pods={"10.0.0.1", "10.0.0.2"})
    brokers = apply_actions(diff_limits(planner.plan.desired, {1: ObservedLimits()}), {1: ObservedLimits()})
    updated(planner, pods, pods={"10.0.0.1", "10.0.0.2"}, pod=B)
    told = membership("default/pods", {"10.0.0.1": B, "10.0.0.2": B})
    assert planner.changed_keys == told.keys()
    assert planner.plan.members == {"pods": 2}
    brokers = apply_actions(diff_limits(planner.plan.desired, brokers), brokers)
    assert told.items() <= brokers[1].quotas.items()
    assert diff_limits(planner.plan.desired, brokers) == []
    assert planner.plan == updated(PlannedQuotas(), pods, pods={"10.0.0.1", "10.0.0.2"}, pod=B).plan


def test_a_limit_ends_at_its_expiry_and_returns_with_a_later_one() -> None:
    ends = NOW + timedelta(hours=1)
    quotas = [
        a_quota("until", {"ip": "10.0.0.1"}, maxConnectionCreationRate=5, expiresAt=ends.isoformat()),
        a_quota("always", {"ip": "10.0.0.1"}, maxConnectionCreationRate=50),
        a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnections=5, expiresAt=ends.isoformat()),
    ]
    planner = updated(PlannedQuotas(), *quotas)
    assert planner.next_expiry == ends
    assert planner.plan.desired.quotas[ip_rate("10.0.0.1")] == 5
    updated(planner, *quotas, now=ends)
    assert planner.changed_keys == {ip_rate("10.0.0.1"), *plan(quotas[2]).keys("range")}
    assert planner.changed_quotas >= {"until", "range"}
    assert planner.plan.desired.quotas == {ip_rate("10.0.0.1"): 50}
    assert planner.next_expiry is None
    for name in ("until", "range"):
        verdict = planner.plan.verdicts[name]
        assert (verdict.outcome, verdict.target_found, verdict.needs_a_person) == (QuotaOutcome.EXPIRED, False, False)
    group = (("connection-group", "default/range"),)
    assert planner.plan.keys("range") == {(group, "max_connections")}, "what is waited for until it is lifted"
    assert planner.plan.keys("until") == {ip_rate("10.0.0.1")}
    later = (ends + timedelta(hours=1)).isoformat()
    quotas[2] = a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnections=5, expiresAt=later)
    updated(planner, *quotas, now=ends)
    assert groups(planner.plan.desired.quotas) == {"default/range"}


def test_a_quota_that_goes_takes_its_group_along() -> None:
    quotas = [a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnections=5), a_quota("pods", of_pods(), maxConnections=5)]
    planner = updated(PlannedQuotas(), *quotas, pods={"10.0.0.1"})
    updated(planner)
    assert planner.plan.desired == DesiredLimits()
    assert groups(planner.changed_keys) == {"default/range", "default/pods"}
    assert planner.plan.members == {}


def test_while_something_cannot_be_read_an_address_is_that_of_the_pod_that_has_it() -> None:
    for before, now in ((A, B), (B, A)):
        had = ObservedLimits(quotas=membership("default/q", {"10.0.0.1": before, "10.0.0.2": before}))
        wanted = DesiredLimits({}, membership("default/q", {"10.0.0.1": now}))
        assert keep_limits(wanted, {1: had}, Keep(all=True)).quotas == membership(
            "default/q", {"10.0.0.1": now, "10.0.0.2": before}
        )


def test_while_something_cannot_be_read_an_enforced_group_is_not_told_to_observe() -> None:
    wanted = plan(a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnections=5, mode="Observe")).desired
    had = plan(a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnections=9), a_quota("gone", of_pods(), maxConnections=1))
    held = keep_limits(wanted, {1: ObservedLimits(quotas=had.desired.quotas)}, Keep(all=True))
    assert held.quotas == {
        **group_limits("default/range", None, 5, shared=False, observe=False),
        **listed("default/range", "10.0.0.0/8"),
        **group_limits("default/gone", None, 1, shared=False, observe=False),
    }


def test_an_address_may_have_a_rate_of_each_broker_and_one_of_the_cluster() -> None:
    made = plan(
        a_quota("each", {"ip": "10.0.0.1"}, maxConnectionCreationRate=50),
        a_quota("shares", {"ip": "10.0.0.1"}, maxConnectionCreationRate=100, scope="Cluster"),
    )
    assert made.desired.quotas[ip_rate("10.0.0.1")] == 50
    assert groups(made.desired.quotas) == {"default/shares"}
    assert not any(verdict.conflicts for verdict in made.verdicts.values())


def test_a_group_without_a_rate_of_its_own_has_no_rate_of_the_cluster() -> None:
    shared: dict[str, Any] = {"limitIs": "Shared", "scope": "Cluster"}
    made = plan(
        a_quota("strict", {"cidr": "10.0.0.0/8"}, maxConnectionCreationRate=5, maxConnections=9, **shared),
        a_quota("counts", {"cidr": "10.0.0.0/8"}, maxConnectionCreationRate=6, maxConnections=3, **shared),
    )
    assert made.desired.quotas == {
        **group_limits("default/strict", 5, None, shared=True, observe=False, of_cluster=True),
        **listed("default/strict", "10.0.0.0/8"),
        **group_limits("default/counts", None, 3, shared=True, observe=False),
        **listed("default/counts", "10.0.0.0/8"),
    }


def test_while_something_cannot_be_read_a_rate_of_the_cluster_is_not_made_one_of_each_broker() -> None:
    shared: dict[str, Any] = {"limitIs": "Shared"}
    wanted = plan(a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnectionCreationRate=500, **shared)).desired
    had = plan(
        a_quota("range", {"cidr": "10.0.0.0/8"}, maxConnectionCreationRate=300, scope="Cluster", **shared),
        a_quota("gone", {"listener": "EXTERNAL"}, maxConnectionCreationRate=200, scope="Cluster"),
    ).desired
    seen = ObservedLimits(default=had.configs, quotas=had.quotas)
    assert keep_limits(wanted, {1: seen}, Keep(all=True)) == had


def test_while_something_cannot_be_read_brokers_keep_the_kind_of_rate_that_they_have() -> None:
    target = {"listener": "EXTERNAL"}
    shares = plan(a_quota("one", target, maxConnectionCreationRate=300, scope="Cluster")).desired
    adapts = plan(a_quota("one", target, adaptive=adaptive(50, 400))).desired
    for wanted, had in ((shares, adapts), (adapts, shares)):
        held = keep_limits(wanted, {1: ObservedLimits(default=had.configs)}, Keep(all=True))
        assert held.configs == dict(had.configs) | {EXTERNAL_RATE: "300"}
        assert set(differing(wanted, held)) == set(wanted.configs) ^ set(held.configs) | (
            {EXTERNAL_RATE} if wanted is adapts else set()
        )


A_TARGET: list[dict[str, Any]] = [
    {"cidr": "10.0.0.0/8"},
    {"cidr": "2001:db8::/32"},
    {"ip": "10.0.0.1"},
    {"defaultIp": {}},
    of_pods(),
]


@st.composite
def some_quotas(draw: st.DrawFn) -> list[ConnectionQuota]:
    made = []
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True)):
        target = draw(st.sampled_from(A_TARGET))
        said: dict[str, Any] = {"maxConnections": draw(st.integers(1, 3))}
        if draw(st.booleans()):
            said["maxConnectionCreationRate"] = draw(st.integers(1, 3))
        if "cidr" in target or "workload" in target:
            said["limitIs"] = draw(st.sampled_from(("Shared", "PerAddress")))
        if said.get("limitIs") == "Shared" or "ip" in target:
            # A rate is drawn above for half of the quotas; scope Cluster needs one.
            said["scope"] = (
                draw(st.sampled_from(("Broker", "Cluster"))) if "maxConnectionCreationRate" in said else "Broker"
            )
        if "defaultIp" not in target:
            said["mode"] = draw(st.sampled_from(("Observe", "Enforce")))
        if draw(st.booleans()):
            said["expiresAt"] = (NOW + timedelta(hours=draw(st.integers(1, 3)))).isoformat()
        made.append(a_quota(name, target, age=draw(st.integers(0, 2)), **said))
    return made


PODS = st.frozensets(st.sampled_from(("10.0.0.1", "10.0.0.2", "2001:db8::1")))
STEPS = st.lists(st.tuples(some_quotas(), st.integers(0, 4), PODS, st.sampled_from((A, B))), max_size=4)


@given(STEPS)
def test_incremental_planning_equals_full_planning_and_brokers_converge(steps: Any) -> None:
    planner, brokers = PlannedQuotas(), {1: ObservedLimits(), 2: ObservedLimits()}
    for quotas, hours, pods, pod in steps:
        now = NOW + timedelta(hours=hours)
        selected = {one.name: pods for one in quotas if one.spec.target.workload is not None}
        before = dict(planner.plan.desired.quotas)
        updated(planner, *quotas, now=now, pod=pod, **selected)
        anew = updated(PlannedQuotas(), *quotas, now=now)
        updated(anew, *quotas, now=now, pod=pod, **selected)
        assert planner.plan == anew.plan
        after = planner.plan.desired.quotas
        assert {
            key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
        } <= planner.changed_keys
        brokers = apply_actions(diff_limits(planner.plan.desired, brokers), brokers)
        assert diff_limits(planner.plan.desired, brokers) == []
        assert brokers[1].quotas == after


ADDRESS = "10.0.0.1"
ON_ADDRESS = st.sampled_from(
    [
        {},
        {"maxConnectionCreationRate": 5},
        {"maxConnections": 9},
        {"maxConnectionCreationRate": 5, "maxConnections": 9},
        {"maxConnectionCreationRate": 300, "scope": "Cluster"},
        {"maxConnectionCreationRate": 300, "maxConnections": 9, "scope": "Cluster"},
    ]
)


def limits_on_address(view: ObservedLimits) -> set[str]:
    """The kinds of limits that a broker enforces on the address, whatever their form."""
    found = {"rate"} if ip_rate(ADDRESS) in view.quotas else set()
    if f"{ADDRESS}:" in view.default.get("max.connections.per.ip.overrides", ""):
        found.add("count")
    holding = {group_of(key) for key in view.quotas if member_of(key) == ADDRESS}
    kinds = {"connection_creation_rate": "rate", "max_connections": "count"}
    return found | {kinds[key[1]] for key in view.quotas if key[1] in kinds and group_of(key) in holding - {None}}


@given(st.dictionaries(st.sampled_from("ab"), ON_ADDRESS), st.dictionaries(st.sampled_from("ab"), ON_ADDRESS))
def test_an_address_has_the_limits_of_before_and_after_at_each_moment(before: Any, after: Any) -> None:
    """Quotas change their scope, come and go; a limit in force before and after is in force in between."""
    plans = [
        plan(*(a_quota(name, {"ip": ADDRESS}, **said) for name, said in quotas.items() if said)).desired
        for quotas in (before, after)
    ]
    view = ObservedLimits(plans[0].configs, quotas=plans[0].quotas)
    wanted = limits_on_address(view) & limits_on_address(ObservedLimits(plans[1].configs, quotas=plans[1].quotas))
    for phase in in_phases(diff_limits(plans[1], {1: view})):
        view = apply_actions(phase, {1: view})[1]
        assert wanted <= limits_on_address(view)
    assert (view.default, view.quotas) == (plans[1].configs, plans[1].quotas)


def test_an_operator_of_one_namespace_refuses_to_select_others() -> None:
    elsewhere = a_quota("elsewhere", of_pods(namespaceSelector={}), maxConnections=1)
    here = a_quota("here", of_pods(), maxConnections=1)
    planner = updated(PlannedQuotas(in_all_namespaces=False), elsewhere, here, elsewhere=[], here=[])
    verdicts = planner.plan.verdicts
    assert (verdicts["elsewhere"].outcome, verdicts["here"].outcome) == (
        QuotaOutcome.UNSUPPORTED,
        QuotaOutcome.ACCEPTED,
    )
    assert "install the operator for all namespaces" in verdicts["elsewhere"].message


def test_pods_selected_for_a_former_target_are_not_members_of_the_present_one() -> None:
    planner = updated(PlannedQuotas(), a_quota("pods", of_pods(), maxConnections=5), pods={"10.0.0.1"})
    updated(planner, a_quota("pods", {"cidr": "10.1.0.0/16"}, maxConnections=5))
    assert members(planner.plan.desired.quotas, "default/pods") == {"10.1.0.0/16"}
    again = a_quota("pods", of_pods(), maxConnections=5)
    updated(planner, again)
    assert planner.plan.verdicts["pods"].outcome is QuotaOutcome.PODS_UNKNOWN
    assert planner.plan.desired == DesiredLimits()
    updated(planner, again, pods={"10.0.0.2"})
    assert members(planner.plan.desired.quotas, "default/pods") == {"10.0.0.2"}
