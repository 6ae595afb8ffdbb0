"""Limits on brokers that others run: remembered before they are set, and only what is ours is lifted."""

import asyncio

import pytest

from sluicegate_operator.fleet import external_limits
from sluicegate_operator.fleet.enforce import EnforcementResult, WantedLimits
from sluicegate_operator.fleet.external_limits import enforce_beside_others
from sluicegate_operator.planning.limit_ledger import LimitLedger
from sluicegate_operator.planning.limits import DesiredLimits
from sluicegate_operator.planning.shared_limits import Mine
from tests.support.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.virtual_time

COUNT = "max.connections"


class Outside:
    def __init__(self) -> None:
        self.cluster = ScriptedCluster(brokers=2)
        self.ledger = LimitLedger()
        self.remembered: list[tuple[Mine, dict[str, str]]] = []
        """And what brokers had then."""

    async def enforce(self, before: Mine = frozenset(), *, hold: bool = False, **configs: str) -> EnforcementResult:
        desired = DesiredLimits({key.replace("_", "."): value for key, value in configs.items()}, exclusive=False)
        pool = self.cluster.pool()

        async def remember(mine: Mine) -> None:
            self.remembered.append((mine, dict(self.cluster.defaults)))

        async with pool.admin:
            wanted = WantedLimits(desired, asyncio.get_running_loop().time(), hold=hold)
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


async def test_while_something_cannot_be_read_nothing_is_lifted_and_nothing_of_others_held() -> None:
    outside = Outside()
    outside.cluster.defaults = {"max.connections.per.ip": "9", COUNT: "5"}
    await outside.enforce(frozenset((COUNT,)), hold=True, max_connections="7")
    assert outside.cluster.defaults == {"max.connections.per.ip": "9", COUNT: "5"}
    assert outside.remembered == []


async def test_more_than_can_be_remembered_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_limits, "LIMITS_MAX", 1)
    outside = Outside()
    result = await outside.enforce(max_connections="5", max_connections_per_ip="3")
    assert outside.cluster.defaults == {}
    assert outside.remembered == []
    assert "2 limits are more than the 1" in result.lagging[0].detail
