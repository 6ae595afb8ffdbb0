"""This broker's rates of the cluster: which there are, how demand is measured, and what a change of shares does."""

from dataclasses import replace
from typing import Any

import pytest

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.cluster.reports import Answer, Grant, ShareState, Verdict
from connection_limits.cluster.shares import Shares
from connection_limits.cluster_rates import ClusterRates, targets
from connection_limits.groups.connection_group import NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

NOW = 5_000_000
IP = "10.0.0.1"
OF_LISTENER: dict[str, Any] = {
    "listener_max_connection_creation_rate": {"EXTERNAL": 100},
    "cluster_wide_listeners": frozenset({"EXTERNAL"}),
}
GROUP = AddressGroupLimits(30, shared=True, cluster_wide=True)


class World:
    """The quotas of one broker, and a controller that grants what a test wants."""

    def __init__(self, *listeners: str, **settings: Any) -> None:
        self.now_ms = NOW
        self.woken: list[str] = []
        self.quotas = ConnectionQuotas(QuotaSettings(**settings), NOW, self.woken.append)
        for name in listeners or ("EXTERNAL",):
            self.quotas.add_listener(name, NOW)
        self.shares = Shares(200, 4_000, NOW)
        self.shares.note_serving(True, NOW)
        self.rates = ClusterRates(self.quotas, self.shares, NOW)

    def update(self, after_ms: int = 100, **queued: int) -> bool:
        self.now_ms += after_ms
        return self.rates.update(queued, self.now_ms)

    def grant(self, **shares: int) -> None:
        """Grant shares by name, with a colon for a double underscore."""
        report = self.shares.begin_report(1, 11, self.now_ms)
        grants = tuple(
            Grant(name.replace("__", ":"), self.shares.limits[name.replace("__", ":")].rate, share)
            for name, share in shares.items()
        )
        self.shares.answered(report, Answer(Verdict.GRANTED, 7, 4_000, 3, False, grants), self.now_ms)
        self.rates.apply(self.now_ms)

    def connect(self, ip: str = IP) -> AcceptOutcome:
        return self.quotas.on_accepted("EXTERNAL", ip, self.now_ms).outcome

    def demand(self, name: str = "listener:EXTERNAL") -> float:
        return self.shares.limits[name].demand / 1_000


def names(world: World) -> list[str]:
    return [target.name for target in targets(world.quotas)]


def test_limits_with_the_scope_of_the_cluster_are_found() -> None:
    world = World("EXTERNAL", "OTHER", max_connection_creation_rate=200, cluster_wide=True, **OF_LISTENER)
    world.quotas.addresses.groups.set_limits("shop/a", GROUP, NOW)
    world.quotas.addresses.groups.set_limits("shop/b", replace(GROUP, cluster_wide=False), NOW)
    assert names(world) == ["broker", "listener:EXTERNAL", "group:shop/a"]
    world.quotas.addresses.groups.set_limits("shop/a", NO_LIMITS, NOW)
    assert names(world) == ["broker", "listener:EXTERNAL"]


@pytest.mark.parametrize(
    "settings",
    [
        {"cluster_wide": True},
        {"max_connection_creation_rate": 200, "cluster_wide_listeners": frozenset({"EXTERNAL"})},
        OF_LISTENER | {"inter_broker_listener": "EXTERNAL"},
    ],
)
def test_the_scope_has_no_effect_without_an_own_rate_and_between_brokers(settings: dict[str, Any]) -> None:
    assert names(World("EXTERNAL", "OTHER", **settings)) == []


def test_a_limit_that_changes_its_scope_gets_another_meter() -> None:
    world = World(**OF_LISTENER)
    assert names(world) == ["listener:EXTERNAL"]
    world.quotas.update(replace(world.quotas.settings, cluster_wide_listeners=frozenset()), NOW)
    assert names(world) == []
    assert world.quotas.listeners["EXTERNAL"].meter.limit == 100
    assert world.connect() is AcceptOutcome.ADMIT
    world.quotas.update(replace(world.quotas.settings, cluster_wide_listeners=frozenset({"EXTERNAL"})), NOW)
    assert world.connect() is AcceptOutcome.WAIT_UNTIL
    world.update()
    world.quotas.listeners["EXTERNAL"].end_wait(world.now_ms)
    world.quotas.update(QuotaSettings(), world.now_ms)
    world.update()
    assert not world.shares.limits
    assert world.rates.is_needed


def test_a_waiting_client_is_admitted_when_a_share_comes() -> None:
    world = World(**OF_LISTENER)
    world.update()
    assert world.connect() is AcceptOutcome.WAIT_UNTIL
    world.now_ms += 1_000
    # Without a share, the end of a window admits nobody.
    assert world.quotas.on_wait_over("EXTERNAL", IP, world.now_ms).outcome is AcceptOutcome.WAIT_UNTIL
    world.grant(listener__EXTERNAL=50_000)
    assert world.woken == ["EXTERNAL"]
    assert world.quotas.on_wait_over("EXTERNAL", IP, world.now_ms).outcome is AcceptOutcome.ADMIT


def test_a_smaller_share_prolongs_a_wait() -> None:
    world = World(**OF_LISTENER)
    world.update()
    world.grant(listener__EXTERNAL=100_000)
    while world.connect() is AcceptOutcome.ADMIT:
        pass
    deadline_ms = world.quotas.listeners["EXTERNAL"].waiting.deadline_ms  # type: ignore[union-attr]
    assert deadline_ms <= world.now_ms + 10
    world.grant(listener__EXTERNAL=2_000)
    decision = world.quotas.on_wait_over("EXTERNAL", IP, deadline_ms)
    assert decision.outcome is AcceptOutcome.WAIT_UNTIL
    assert decision.at_ms > world.now_ms + 100


def test_the_wait_for_another_limit_is_not_shortened_by_a_share() -> None:
    world = World(max_connection_creation_rate=1, quota_window_num=1, **OF_LISTENER)
    world.update()
    world.grant(listener__EXTERNAL=1_000)
    while world.connect() is AcceptOutcome.ADMIT:
        pass
    wait = world.quotas.listeners["EXTERNAL"].waiting
    assert wait is not None
    fixed_ms = wait.fixed_until_ms
    assert fixed_ms > world.now_ms
    world.grant(listener__EXTERNAL=100_000)
    assert wait.deadline_ms >= fixed_ms


def test_demand_is_the_rate_of_attempts_and_falls_within_a_second() -> None:
    world = World(**OF_LISTENER)
    world.update()
    world.grant(listener__EXTERNAL=100_000)
    world.update()
    for _ in range(30):
        world.grant(listener__EXTERNAL=100_000)
        for _ in range(4):
            assert world.connect() is AcceptOutcome.ADMIT
        world.update()
    assert world.demand() == pytest.approx(40, rel=0.1)
    for _ in range(10):
        world.update()
    assert world.demand() < 4
    for _ in range(20):
        world.update()
    assert world.demand() == 0


def test_waiting_clients_are_demand_and_a_queue_asks_for_twice_the_share() -> None:
    world = World(**OF_LISTENER)
    world.update()
    world.grant(listener__EXTERNAL=30_000)
    while world.connect() is AcceptOutcome.ADMIT:
        pass
    world.update(EXTERNAL=2)
    assert world.demand() >= 60
    world.update(EXTERNAL=500)
    assert world.demand() == 100


def test_a_queue_for_another_limit_is_no_demand() -> None:
    world = World(max_connections=1, **OF_LISTENER)
    world.update()
    world.grant(listener__EXTERNAL=100_000)
    world.update(1_000)
    assert world.connect() is AcceptOutcome.ADMIT
    assert world.connect() is AcceptOutcome.WAIT_FOR_SLOT
    for _ in range(30):
        world.update(EXTERNAL=500)
    assert world.demand() == 0


def test_connections_that_a_group_refuses_are_its_demand() -> None:
    world = World()
    groups = world.quotas.addresses.groups
    groups.set_limits("shop/a", GROUP, NOW)
    groups.add_member("shop/a", "10.0.0.0/8", NOW)
    world.update()
    for _ in range(30):
        for _ in range(2):
            assert world.connect() is AcceptOutcome.REFUSE_DELAYED
        world.update()
    assert world.demand("group:shop/a") == pytest.approx(20, rel=0.1)
    assert groups.by_name["shop/a"].held == {"delayed": 60}


def test_an_idle_limit_reports_nothing_new() -> None:
    world = World(**OF_LISTENER)
    world.update()
    world.grant(listener__EXTERNAL=30_000)
    assert not any(world.update() or world.shares.is_due(world.now_ms) for _ in range(9))


def test_the_share_is_described() -> None:
    world = World(**OF_LISTENER)
    assert world.rates.shown("listener:EXTERNAL", world.now_ms) is None
    world.update()
    shown = world.rates.shown("listener:EXTERNAL", world.now_ms)
    assert shown == (100, 0.0, 0.0, None, None, ShareState.WAITING)
    world.grant(listener__EXTERNAL=30_500)
    shown = world.rates.shown("listener:EXTERNAL", world.now_ms + 500)
    assert shown == (100, 30.5, 0.0, 3, 0.5, ShareState.GRANTED)


def test_the_queue_of_a_listener_holds_what_the_broker_may_expect_of_the_rate() -> None:
    world = World(**OF_LISTENER | {"listener_max_connection_creation_rate": {"EXTERNAL": 3_000}})
    world.update()
    world.grant(listener__EXTERNAL=10_000)
    assert world.quotas.backlog("EXTERNAL", 50) == 1_000
    world.grant(listener__EXTERNAL=2_900_000)
    assert world.quotas.backlog("EXTERNAL", 50) == 2_900
