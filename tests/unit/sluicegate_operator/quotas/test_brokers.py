"""The quota path over an in-memory cluster: changes, read-backs, and the cost of a missing broker."""

import asyncio

import pytest

from sluicegate_operator.fleet.kafka.asking import NoBrokerError, Unreachable
from sluicegate_operator.fleet.kafka.broker_limits import apply_actions, observe_limits
from sluicegate_operator.kafka_admin.quotas import ALTERED_A_REQUEST
from sluicegate_operator.planning.limits.connection_groups import group_limits, membership
from sluicegate_operator.planning.limits.limits import (
    DesiredLimits,
    LimitKey,
    ObservedLimits,
    SetBrokerConfigs,
    SetQuota,
    ip_rate,
    ip_rates,
)
from sluicegate_operator.quotas.brokers import (
    EnforcementResult,
    EnforcementState,
    ListenerWishes,
    WantedLimits,
    enforce,
)
from sluicegate_operator.quotas.kept_limits import Keep
from sluicegate_operator.quotas.model.targets import Limits, TargetKey, TargetKind
from sluicegate_operator.quotas.state.ledger import LimitLedger
from sluicegate_operator.quotas.state.unconfirmed_limits import AGAIN_S
from tests.support.fakes.scripted_cluster import REFUSED, ScriptedCluster
from tests.support.fakes.scripted_peer import PeerRequest

pytestmark = pytest.mark.virtual_time

RATE = "max.connection.creation.rate"
EXTERNAL_RATE = f"listener.name.external.{RATE}"
COUNT = "max.connections"
ALTER_CLIENT_QUOTAS = 49


async def run(
    cluster: ScriptedCluster,
    desired: DesiredLimits,
    *,
    deadline_s: float = 5.0,
    released: frozenset[LimitKey] | None = None,
) -> EnforcementResult:
    pool = cluster.pool()
    async with pool.admin:
        return await enforce(pool, WantedLimits(desired, asyncio.get_running_loop().time(), deadline_s, ours=released))


def states(result: EnforcementResult) -> list[EnforcementState]:
    return [broker.state for broker in result.brokers]


async def test_limits_are_set_once_for_all_brokers_and_seen_on_each() -> None:
    cluster = ScriptedCluster(brokers=3)
    rates = ip_rates({"127.0.1.7": 5.0, None: 100.0})
    result = await run(cluster, DesiredLimits({EXTERNAL_RATE: "50", COUNT: "9"}, rates))
    assert cluster.defaults == {EXTERNAL_RATE: "50", COUNT: "9"}
    assert cluster.ip_rates == {"127.0.1.7": 5.0, None: 100.0}
    assert cluster.alterations == 2
    assert states(result) == [EnforcementState.ENFORCED] * 3
    assert result.is_complete
    assert result.took_s is not None
    assert 0 <= result.took_s < 5


async def test_nothing_is_sent_when_nothing_differs() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {RATE: "50"}
    result = await run(cluster, DesiredLimits({RATE: "50"}))
    assert cluster.alterations == 0
    assert result.is_complete
    assert result.changes == ()


async def test_limits_without_a_quota_and_overrides_by_hand_are_taken_away() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {EXTERNAL_RATE: "50", COUNT: "4"}
    cluster.overrides[1] = {EXTERNAL_RATE: "1000"}
    cluster.ip_rates = {"127.0.1.7": 5.0}
    result = await run(cluster, DesiredLimits({EXTERNAL_RATE: "50"}))
    assert cluster.defaults == {EXTERNAL_RATE: "50"}
    assert cluster.overrides == {0: {}, 1: {}}
    assert cluster.ip_rates == {}
    assert result.is_complete


async def test_while_something_cannot_be_read_limits_become_stricter_and_none_is_lifted_or_loosened() -> None:
    cluster = ScriptedCluster(brokers=2)
    overrides = "max.connections.per.ip.overrides"
    cluster.defaults = {EXTERNAL_RATE: "50", COUNT: "9", overrides: "10.0.0.1:5,2001:db8::7:9"}
    cluster.ip_rates = {"127.0.1.7": 5.0, None: 100.0}
    wanted = DesiredLimits(
        {EXTERNAL_RATE: "20", COUNT: "10", RATE: "7", overrides: "10.0.0.1:6,2001:db8::7:3"}, ip_rates({None: 30.0})
    )
    pool = cluster.pool()
    async with pool.admin:
        result = await enforce(pool, WantedLimits(wanted, asyncio.get_running_loop().time(), keep=Keep(all=True)))
    assert cluster.defaults == {EXTERNAL_RATE: "20", COUNT: "9", RATE: "7", overrides: "10.0.0.1:5,2001:db8::7:3"}
    assert cluster.ip_rates == {"127.0.1.7": 5.0, None: 30.0}
    assert result.is_complete


async def test_limits_of_a_listener_that_brokers_may_have_open_yet_are_not_lifted() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {EXTERNAL_RATE: "50", COUNT: "9"}
    closing = {TargetKey(TargetKind.LISTENER, "EXTERNAL"): Limits(rate=50)}
    pool = cluster.pool()
    async with pool.admin:
        result = await enforce(
            pool, WantedLimits(DesiredLimits(), asyncio.get_running_loop().time(), listeners=ListenerWishes(closing))
        )
    assert cluster.defaults == {EXTERNAL_RATE: "50"}
    assert result.is_complete


async def test_on_a_shared_cluster_only_what_was_released_is_lifted() -> None:
    cluster = ScriptedCluster(brokers=1)
    cluster.defaults = {EXTERNAL_RATE: "50", COUNT: "4"}
    released = frozenset({EXTERNAL_RATE})
    result = await run(cluster, DesiredLimits(exclusive=False), released=released)
    assert cluster.defaults == {COUNT: "4"}
    assert result.is_complete


async def test_a_broker_that_is_down_is_named_and_the_others_are_done() -> None:
    cluster = ScriptedCluster(brokers=3)
    cluster.peers[0].refuse = True
    result = await run(cluster, DesiredLimits({RATE: "50"}, ip_rates({"127.0.1.7": 5.0})))
    assert cluster.defaults == {RATE: "50"}
    assert states(result) == [EnforcementState.UNREACHABLE, EnforcementState.ENFORCED, EnforcementState.ENFORCED]
    assert (result.enforced, result.is_complete, result.took_s) == (2, False, None)
    assert [(broker.broker_id, broker.detail) for broker in result.lagging] == [
        (0, "broker b0:9092: cannot connect: Connection refused")
    ]


async def test_a_silent_broker_does_not_delay_the_others() -> None:
    cluster = ScriptedCluster(brokers=3)
    for api_key in (32, 48):
        cluster.peers[1].script(api_key, lambda _: None)
    result = await run(cluster, DesiredLimits({RATE: "50"}))
    assert states(result) == [EnforcementState.ENFORCED, EnforcementState.UNREACHABLE, EnforcementState.ENFORCED]
    first, silent, last = result.brokers
    assert silent.detail == "no answer within 0.2 s"
    assert first.enforced_at_s is not None
    assert last.enforced_at_s is not None
    assert abs(first.enforced_at_s - last.enforced_at_s) < 0.2


async def test_a_frozen_broker_costs_the_others_less_than_a_second() -> None:
    """The frozen broker accepts connections and never answers, and is the first through which changes would go."""
    cluster = ScriptedCluster(brokers=3)
    for api_key in (32, 44, 48, 49):
        cluster.peers[0].script(api_key, lambda _: None)
    pool = cluster.pool(ask_timeout_s=60)
    loop = asyncio.get_running_loop()
    async with pool.admin, asyncio.timeout(10):
        started_s = loop.time()
        result = await enforce(pool, WantedLimits(DesiredLimits({RATE: "50"}, ip_rates({None: 7.0})), started_s))
    assert cluster.defaults == {RATE: "50"}
    assert cluster.ip_rates == {None: 7.0}
    assert states(result) == [EnforcementState.UNREACHABLE, EnforcementState.ENFORCED, EnforcementState.ENFORCED]
    assert [broker.enforced_at_s - started_s < 1.0 for broker in result.brokers if broker.enforced_at_s] == [True] * 2


async def test_a_broker_that_sees_the_change_later_is_waited_for() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.lags.add(1)
    asyncio.get_running_loop().call_later(0.03, cluster.lags.clear)
    result = await run(cluster, DesiredLimits({RATE: "50"}, ip_rates({None: 7.0})))
    assert result.is_complete


async def test_after_the_deadline_the_result_says_what_a_broker_lacks() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.lags.add(1)
    cluster.ip_rates = {}
    result = await run(cluster, DesiredLimits({RATE: "50"}, ip_rates({None: 7.0, "10.0.0.1": 5.0})), deadline_s=0.02)
    (late,) = result.lagging
    assert (late.broker_id, late.state) == (1, EnforcementState.LAGGING)
    assert late.detail == (
        f"{RATE} is not 50; the rate of address 10.0.0.1 is not 5; the rate of all addresses is not 7"
    )


async def test_one_refused_value_does_not_delay_the_others() -> None:
    cluster = ScriptedCluster(brokers=1)
    desired = DesiredLimits({RATE: "50", COUNT: REFUSED}, ip_rates({"10.0.0.1": 5.0, "10.0.0.2": -1.0}))
    # Far less than the deadline, because nothing waits for the refused value.
    async with asyncio.timeout(5):
        result = await run(cluster, desired, deadline_s=1000)
    assert cluster.defaults == {RATE: "50"}
    assert [broker.detail for broker in result.lagging] == [
        "max.connections is not refused; the rate of address 10.0.0.2 is not -1"
    ]
    assert cluster.ip_rates == {"10.0.0.1": 5.0}
    assert {failure.action for failure in result.failures if isinstance(failure.action, SetQuota)} == {
        SetQuota(ip_rate("10.0.0.2"), -1.0)
    }
    assert SetBrokerConfigs(None, {COUNT: REFUSED}) in [failure.action for failure in result.failures]
    assert not result.is_complete


async def test_without_any_broker_nothing_is_done_and_every_broker_is_unreachable() -> None:
    cluster = ScriptedCluster(brokers=2)
    for peer in cluster.peers:
        peer.refuse = True
    result = await run(cluster, DesiredLimits({RATE: "50"}))
    assert states(result) == [EnforcementState.UNREACHABLE] * 2
    assert result.failures == ()


async def test_a_change_that_reaches_nobody_is_a_failure_that_may_pass() -> None:
    cluster = ScriptedCluster(brokers=1)
    cluster.peers[0].refuse = True
    pool = cluster.pool()
    async with pool.admin:
        (failure,) = await apply_actions(pool, [SetBrokerConfigs(0, {}, (COUNT,))])
    assert isinstance(failure.error, NoBrokerError)


async def test_the_two_dynamic_layers_are_told_apart() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {RATE: "50", EXTERNAL_RATE: "20"}
    cluster.overrides[0] = {RATE: "40"}
    cluster.peers[1].refuse = True
    pool = cluster.pool()
    async with pool.admin:
        seen = await observe_limits(pool)
    assert seen[0] == ObservedLimits(default={RATE: "50", EXTERNAL_RATE: "20"}, own={RATE: "40"})
    assert isinstance(seen[1], Unreachable)


async def test_asking_for_no_keys_asks_for_no_configuration() -> None:
    cluster = ScriptedCluster(brokers=1)
    cluster.defaults = {RATE: "50"}
    pool = cluster.pool()
    async with pool.admin:
        assert await observe_limits(pool, keys=()) == {0: ObservedLimits()}
    assert 32 not in [request.api_key for request in cluster.peers[0].requests]


async def test_only_unanswered_limits_of_a_large_change_count_as_failures() -> None:
    cluster = ScriptedCluster(brokers=1)
    limits = [SetQuota(ip_rate(f"10.0.0.{number}"), 5.0) for number in range(250)]
    [peer] = cluster.peers

    def the_first_one(request: PeerRequest) -> bytes | None:
        peer.script(ALTER_CLIENT_QUOTAS, lambda _: None)
        return alter(request)

    alter = peer._answers[ALTER_CLIENT_QUOTAS]
    peer.script(ALTER_CLIENT_QUOTAS, the_first_one)
    pool = cluster.pool()
    async with pool.admin:
        failures = await apply_actions(pool, limits)
    assert len(cluster.ip_rates) == ALTERED_A_REQUEST
    not_set = {action for action in limits if action.key not in ip_rates(cluster.ip_rates)}
    assert {failure.action for failure in failures} == not_set


OF_CLUSTER = group_limits("default/q", 300, None, shared=True, observe=False, of_cluster=True)
MEMBER = membership("default/q", {"10.0.0.1": 1.0})


async def test_a_controller_of_an_earlier_release_gets_a_limit_of_each_broker_in_place_of_none() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.refused_group_keys.add("cluster")
    cluster.refused.add("cluster")
    scope = "listener.name.external.connection.quota.scope"
    result = await run(cluster, DesiredLimits({EXTERNAL_RATE: "300", scope: "cluster"}, OF_CLUSTER | MEMBER))
    assert cluster.defaults == {EXTERNAL_RATE: "300"}
    ((group, _), *_), ((member, _), *_) = OF_CLUSTER, MEMBER
    assert cluster.groups == {group: {"connection_creation_rate": 300.0, "shared": 1.0}, member: {"member": 1.0}}
    refused = {key for failure in result.failures for key in failure.action.keys}
    assert refused == {scope, (group, "cluster")}
    assert states(result) == [EnforcementState.LAGGING] * 2


@pytest.mark.parametrize("to_group", [True, False])
async def test_an_address_has_a_limit_at_each_moment_while_its_quota_changes_its_form(to_group: bool) -> None:
    cluster = ScriptedCluster(brokers=1)
    forms = [DesiredLimits({}, ip_rates({"10.0.0.1": 5.0})), DesiredLimits({}, OF_CLUSTER | MEMBER)]
    before, after = forms if to_group else reversed(forms)
    await run(cluster, before)
    [peer] = cluster.peers
    alter, limited = peer._answers[ALTER_CLIENT_QUOTAS], list[bool]()

    def watched(request: PeerRequest) -> bytes | None:
        answer = alter(request)
        limited.append(bool(cluster.ip_rates) or all(any(values.values()) for values in cluster.groups.values()))
        return answer

    peer.script(ALTER_CLIENT_QUOTAS, watched)
    assert (await run(cluster, after)).is_complete
    assert limited == [True, True]
    assert bool(cluster.ip_rates) is not to_group


async def test_an_address_keeps_its_limit_if_brokers_refuse_the_group_that_replaces_it() -> None:
    cluster = ScriptedCluster(brokers=1)
    await run(cluster, DesiredLimits({}, ip_rates({"10.0.0.1": 5.0, "10.0.0.2": 5.0})))
    cluster.refused_group_keys.add("shared")
    result = await run(cluster, DesiredLimits({}, OF_CLUSTER | MEMBER))
    assert cluster.ip_rates == {"10.0.0.1": 5.0}, "the other address has no new limit"
    assert not result.is_complete
    cluster.refused_group_keys.clear()
    assert (await run(cluster, DesiredLimits({}, OF_CLUSTER | MEMBER))).is_complete
    assert cluster.ip_rates == {}


class LateBroker:
    """The first of two brokers accepts the next change of a rate, does not answer, and applies it much later."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster(brokers=2)
        [self.peer, _] = self.cluster.peers
        self.ledger = LimitLedger()
        self._alter = self.peer._answers[ALTER_CLIENT_QUOTAS]
        self._pool = self.cluster.pool()
        self._taken: list[PeerRequest] = []

    async def __aenter__(self) -> "LateBroker":
        await self._pool.admin.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.admin.aclose()

    async def want(self, rate: float | None, *, changed: bool = True) -> EnforcementResult:
        keys = frozenset[LimitKey]((ip_rate(None),)) if changed else frozenset()
        desired = DesiredLimits({}, ip_rates({} if rate is None else {None: float(rate)}))
        wanted = WantedLimits(desired, asyncio.get_running_loop().time(), changed=keys)
        return await enforce(self._pool, wanted, self.ledger)

    def say_nothing_of_the_next(self, *, cuts: bool = False) -> None:
        def take(request: PeerRequest) -> bytes | None:
            self._taken.append(request)
            self.peer.script(ALTER_CLIENT_QUOTAS, self._alter)
            if cuts:
                self.peer.connections[-1].hang_up()
            return None

        self.peer.script(ALTER_CLIENT_QUOTAS, take)

    def make_it_now(self) -> None:
        [request] = self._taken
        self._alter(request)

    async def next_look(self) -> None:
        wait_s = self.ledger.doubts.next_read_s(self.ledger.silent) - asyncio.get_running_loop().time()
        assert wait_s <= AGAIN_S
        await asyncio.sleep(wait_s)


@pytest.mark.parametrize("cuts", [False, True])
async def test_a_late_change_overrides_a_newer_one_only_for_a_short_time(cuts: bool) -> None:
    async with LateBroker() as late:
        await late.want(5)
        late.say_nothing_of_the_next(cuts=cuts)
        assert (await late.want(7)).enforced
        assert (await late.want(9)).is_complete
        late.make_it_now()
        assert late.cluster.ip_rates == {None: 7}
        await late.next_look()
        result = await late.want(9, changed=False)
        assert late.cluster.ip_rates == {None: 9}
        # No other client made this change.
        assert (result.is_complete, result.drift) == (True, ())


async def test_a_limit_that_was_lifted_and_comes_back_late_is_lifted_again() -> None:
    async with LateBroker() as late:
        await late.want(None)
        late.say_nothing_of_the_next()
        await late.want(7)
        await late.want(None)
        late.make_it_now()
        await late.next_look()
        await late.want(None, changed=False)
        assert late.cluster.ip_rates == {}


async def test_a_change_that_was_refused_is_in_no_doubt() -> None:
    async with LateBroker() as late:
        late.cluster.refused_rates.add(13.0)
        await late.want(13)
        assert late.ledger.doubts.keys == frozenset()


async def test_all_limits_are_read_from_the_pass_on_that_finds_an_unreadable_quota() -> None:
    cluster, ledger = ScriptedCluster(brokers=2), LimitLedger()
    pool, wanted = cluster.pool(), DesiredLimits({RATE: "50"})
    async with pool.admin:
        await enforce(pool, WantedLimits(wanted, asyncio.get_running_loop().time()), ledger)
        cluster.defaults = {RATE: "20"}
        await enforce(pool, WantedLimits(wanted, asyncio.get_running_loop().time(), keep=Keep(all=True)), ledger)
    assert cluster.defaults == {RATE: "20"}
    assert list(ledger.kept) == [RATE]


def test_external_brokers_are_not_asked_for_connection_groups() -> None:
    assert WantedLimits(DesiredLimits(exclusive=False), 0).entity_types == ("ip",)
    assert WantedLimits(DesiredLimits(), 0).entity_types == ("ip", "connection-group")
