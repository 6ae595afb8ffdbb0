"""Limits on external brokers: remembered before they are set, and only ours are lifted."""

import asyncio

import pytest

from sluicegate_operator.planning.limits.limits import COUNT_PER_IP_OVERRIDES, DesiredLimits, LimitKey
from sluicegate_operator.quotas import external_limits
from sluicegate_operator.quotas.brokers import EnforcementResult, EnforcementState, WantedLimits
from sluicegate_operator.quotas.external_limits import enforce_beside_others
from sluicegate_operator.quotas.kept_limits import Keep
from sluicegate_operator.quotas.shared_limits import Mine
from sluicegate_operator.quotas.state.ledger import LimitLedger
from sluicegate_operator.quotas.state.unconfirmed_limits import AGAIN_S, LATE_S
from tests.support.fakes.scripted_cluster import REFUSED, ScriptedCluster

pytestmark = pytest.mark.virtual_time

COUNT = "max.connections"
OVERRIDES = frozenset((COUNT_PER_IP_OVERRIDES,))
INCREMENTAL_ALTER_CONFIGS = 44


class Outside:
    def __init__(self, brokers: int = 2) -> None:
        self.cluster = ScriptedCluster(brokers)
        self.ledger = LimitLedger()
        self.remembered: list[tuple[Mine, dict[str, str]]] = []
        """The limits of brokers at that time."""

    async def enforce(
        self,
        before: Mine = frozenset(),
        changed: frozenset[LimitKey] = frozenset(),
        *,
        keeps_all: bool = False,
        **configs: str,
    ) -> EnforcementResult:
        desired = DesiredLimits({key.replace("_", "."): value for key, value in configs.items()}, exclusive=False)
        pool = self.cluster.pool()

        async def remember(mine: Mine) -> None:
            self.remembered.append((mine, dict(self.cluster.defaults)))

        async with pool.admin:
            wanted = WantedLimits(desired, asyncio.get_running_loop().time(), changed=changed, keep=Keep(all=keeps_all))
            return await enforce_beside_others(pool, wanted, self.ledger, before, remember)


async def test_what_is_set_is_remembered_before_and_forgotten_after() -> None:
    outside = Outside()
    outside.cluster.defaults = {"max.connections.per.ip": "9"}
    assert (await outside.enforce(max_connections="5")).is_complete
    assert outside.remembered == [(frozenset((COUNT,)), {"max.connections.per.ip": "9"})]
    assert outside.cluster.defaults == {"max.connections.per.ip": "9", COUNT: "5"}
    outside.ledger = LimitLedger()
    assert (await outside.enforce(frozenset((COUNT,)))).is_complete
    assert outside.remembered[1:] == [(frozenset(), {"max.connections.per.ip": "9"})]


async def test_no_limit_is_lifted_or_held_for_others_while_a_quota_is_unreadable() -> None:
    outside = Outside()
    outside.cluster.defaults = {"max.connections.per.ip": "9", COUNT: "5"}
    await outside.enforce(frozenset((COUNT,)), keeps_all=True, max_connections="7")
    assert outside.cluster.defaults == {"max.connections.per.ip": "9", COUNT: "5"}
    assert outside.remembered == []


async def test_more_than_can_be_remembered_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_limits, "LIMITS_MAX", 1)
    outside = Outside()
    result = await outside.enforce(max_connections="5", max_connections_per_ip="3")
    assert outside.cluster.defaults == {}
    assert outside.remembered == []
    assert "the quotas need 2 limits, and the operator can store 1" in result.lagging[0].detail


async def test_a_limit_beyond_the_maximum_is_not_lifted_if_others_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_limits, "LIMITS_MAX", 1)
    outside, changed = Outside(), frozenset[LimitKey](("max.connections.per.ip",))
    outside.cluster.defaults = {"max.connections.per.ip": "9"}
    assert (await outside.enforce(max_connections="5")).is_complete
    mine = frozenset((COUNT,))
    await outside.enforce(mine, changed | {COUNT}, max_connections="7", max_connections_per_ip="3")
    assert outside.cluster.defaults == {"max.connections.per.ip": "9", COUNT: "7"}
    assert (await outside.enforce(mine, changed | {COUNT}, max_connections="5")).is_complete
    assert outside.cluster.defaults == {"max.connections.per.ip": "9", COUNT: "5"}


async def test_entries_of_others_are_kept_while_no_broker_reports_them() -> None:
    outside = Outside()
    cluster = outside.cluster
    cluster.defaults = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
    assert (await outside.enforce(max_connections="5")).is_complete
    cluster.unanswered = {0: 1, 1: 1}
    ours = "10.0.0.1:2"
    mine = frozenset((COUNT,))
    result = await outside.enforce(mine, OVERRIDES, max_connections="5", max_connections_per_ip_overrides=ours)
    assert (result.enforced, cluster.defaults[COUNT_PER_IP_OVERRIDES]) == (0, "10.0.0.9:1")
    mine = outside.remembered[-1][0]
    result = await outside.enforce(mine, OVERRIDES, max_connections="5", max_connections_per_ip_overrides=ours)
    assert result.is_complete
    assert cluster.defaults[COUNT_PER_IP_OVERRIDES] == "10.0.0.9:1,10.0.0.1:2"


async def test_a_single_brokers_entries_apply_to_all_before_its_own_value_is_removed() -> None:
    outside = Outside()
    outside.cluster.overrides[1] = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
    await outside.enforce(max_connections_per_ip_overrides="10.0.0.1:2")
    assert outside.cluster.overrides[1] == {}
    assert outside.cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1,10.0.0.1:2"}


async def test_entries_that_brokers_do_not_show_yet_are_not_replaced() -> None:
    outside = Outside()
    cluster = outside.cluster
    cluster.defaults, cluster.lags = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}, {0, 1}
    asyncio.get_running_loop().call_later(0.1, cluster.lags.clear)
    assert (await outside.enforce(max_connections_per_ip_overrides="10.0.0.1:2")).is_complete
    assert cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1,10.0.0.1:2"}


async def test_a_lagging_brokers_view_does_not_remove_entries_of_others() -> None:
    outside = Outside(brokers=3)
    outside.cluster.defaults, outside.cluster.lags = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}, {0}
    await outside.enforce(max_connections_per_ip_overrides="10.0.0.1:2")
    assert outside.cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1,10.0.0.1:2"}


async def test_a_set_limit_is_remembered_until_it_is_seen_lifted() -> None:
    """If no broker answers, while brokers do not show other wanted limits, and if a limit is refused."""
    mine = frozenset((COUNT,))
    away = Outside()
    away.cluster.defaults = {COUNT: "5"}
    for peer in away.cluster.peers:
        peer.refuse = True
    await away.enforce(mine)
    assert away.remembered == []
    behind, refused = Outside(), Outside()
    for outside, wanted in ((behind, "3"), (refused, REFUSED)):
        outside.cluster.defaults = {COUNT: "5"}
        outside.cluster.lags = {1} if outside is behind else set()
        result = await outside.enforce(mine, max_connections_per_ip=wanted)
        assert EnforcementState.LAGGING in {broker.state for broker in result.brokers}
        again = [[COUNT]] if outside is refused else []
        assert [sorted(map(str, kept)) for kept, _ in outside.remembered] == [[COUNT, "max.connections.per.ip"], *again]


async def test_a_limit_that_brokers_refuse_is_not_ours_and_the_value_of_others_stays() -> None:
    outside = Outside()
    outside.cluster.defaults = {COUNT: "9"}
    await outside.enforce(max_connections=REFUSED, max_connections_per_ip="3")
    assert [kept for kept, _ in outside.remembered] == [
        frozenset((COUNT, "max.connections.per.ip")),
        frozenset(("max.connections.per.ip",)),
    ]
    await outside.enforce(outside.remembered[-1][0], frozenset((COUNT, "max.connections.per.ip")))
    assert outside.cluster.defaults == {COUNT: "9"}
    assert outside.remembered[-1][0] == frozenset()


async def test_a_limit_of_ours_whose_new_value_is_refused_stays_ours() -> None:
    outside = Outside()
    outside.cluster.defaults = {COUNT: "5"}
    await outside.enforce(frozenset((COUNT,)), frozenset((COUNT,)), max_connections=REFUSED)
    assert outside.remembered == []
    await outside.enforce(frozenset((COUNT,)), frozenset((COUNT,)))
    assert outside.cluster.defaults == {}


async def test_nothing_is_forgotten_while_something_cannot_be_read() -> None:
    outside = Outside()
    outside.cluster.defaults = {COUNT: "5"}
    assert (await outside.enforce(frozenset((COUNT,)), keeps_all=True)).is_complete
    assert outside.cluster.defaults == {COUNT: "5"}
    assert outside.remembered == []


async def test_limits_of_others_are_not_sent_to_a_broker_that_lacks_them() -> None:
    outside = Outside()
    outside.cluster.defaults, outside.cluster.lags = {COUNT: "9"}, {1}
    await outside.enforce(keeps_all=True)
    assert outside.cluster.alterations == 0


async def test_a_broker_that_does_not_answer_is_not_said_to_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_limits, "LIMITS_MAX", 1)
    outside = Outside()
    outside.cluster.peers[1].refuse = True
    result = await outside.enforce(max_connections="5", max_connections_per_ip="3")
    assert [broker.state for broker in result.brokers] == [EnforcementState.LAGGING, EnforcementState.UNREACHABLE]
    assert "Connection refused" in result.brokers[1].detail


async def test_entries_of_others_stay_after_an_unconfirmed_change_beside_them() -> None:
    outside = Outside()
    cluster, ours = outside.cluster, f"{COUNT_PER_IP_OVERRIDES} 10.0.0.1"
    cluster.defaults = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
    await outside.enforce(changed=OVERRIDES, max_connections_per_ip_overrides="10.0.0.1:2")
    assert cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1,10.0.0.1:2"}
    [slow, _] = cluster.peers
    alter = slow._answers[INCREMENTAL_ALTER_CONFIGS]
    slow.script(INCREMENTAL_ALTER_CONFIGS, lambda _: None)
    await outside.enforce(frozenset((ours,)), OVERRIDES)
    slow.script(INCREMENTAL_ALTER_CONFIGS, alter)
    assert cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
    assert outside.ledger.doubts.keys == OVERRIDES
    mine = outside.remembered[-1][0]
    assert mine == frozenset((ours,))
    # Now the slow broker executes the order of long before.
    cluster.defaults = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1,10.0.0.1:2"}
    await asyncio.sleep(AGAIN_S)
    await outside.enforce(mine)
    assert cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
    await asyncio.sleep(LATE_S)
    await outside.enforce(mine)
    assert (cluster.defaults, outside.remembered[-1][0]) == ({COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}, frozenset())


async def test_entries_of_others_stay_when_an_offline_broker_returns() -> None:
    outside = Outside()
    cluster, ours = outside.cluster, f"{COUNT_PER_IP_OVERRIDES} 10.0.0.1"
    cluster.defaults = {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
    await outside.enforce(changed=OVERRIDES, max_connections_per_ip_overrides="10.0.0.1:2")
    cluster.peers[1].refuse = True
    cluster.peers[1].connections[-1].hang_up()
    await outside.enforce(frozenset((ours,)), OVERRIDES)
    assert (cluster.defaults, outside.remembered[-1][0]) == ({COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}, frozenset())
    cluster.peers[1].refuse = False
    await outside.enforce()
    assert cluster.defaults == {COUNT_PER_IP_OVERRIDES: "10.0.0.9:1"}
