"""The cost of one changed quota of many, in work: planned, asked, sent, judged and reported."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate_operator.kafka_admin.connecting import connection
from sluicegate_operator.quotas import plan
from sluicegate_operator.quotas.plan import COMPARED_PER_SLICE, PLANNED_PER_SLICE
from sluicegate_operator.quotas.state import state
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.worlds.planned_quotas import PlannedQuotas
from tests.unit.sluicegate_operator.quotas.test_reconcile import RESYNC_MAX_S, Shop, cluster, quota

pytestmark = pytest.mark.virtual_time

MANY = 400
BROKERS = 3


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time does not wait for threads: long replies are decoded here."""
    monkeypatch.setattr(connection, "READ_HERE_BYTES", 1 << 24)


class Counted:
    """Counts the calls of a module's function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self.calls = 0
        function: Callable[..., Any] = getattr(module, name)

        def count(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, count)


def many_quotas() -> MemoryKube:
    quotas = (quota(f"q{number}", f"10.0.{number // 250}.{number % 250 + 1}") for number in range(MANY))
    return MemoryKube(cluster(BROKERS), *quotas)


def requests(shop: Shop) -> int:
    return sum(len(peer.requests) for peer in shop.brokers.peers)


async def test_one_changed_quota_of_many_costs_one_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(many_quotas(), BROKERS)
    await shop.reconcile()
    assert shop.said("q7") == ("3/3", "True", "Enforced")
    planned = Counted(monkeypatch, plan, "verdict_of")
    told = Counted(monkeypatch, state, "quota_status")
    asked, quotas_told, alterations = requests(shop), shop.brokers.quotas_told, shop.brokers.alterations
    shop.kube.put(quota("q7", "10.0.0.8", rate=9))
    await shop.reconcile()
    assert shop.brokers.ip_rates["10.0.0.8"] == 9.0
    assert (planned.calls, told.calls) == (1, 1)
    assert shop.brokers.alterations - alterations == 1
    # One change through any broker, and a request for this one limit to each.
    assert (requests(shop) - asked, shop.brokers.quotas_told - quotas_told) == (1 + BROKERS, BROKERS)


async def test_a_pass_without_changes_sends_no_requests_and_a_resync_reads_everything() -> None:
    shop = Shop(many_quotas(), BROKERS)
    await shop.reconcile()
    asked, told = requests(shop), shop.brokers.quotas_told
    assert isinstance(again := await shop.reconcile(), float)
    assert again > 0
    assert (requests(shop) - asked, shop.brokers.quotas_told - told) == (0, 0)
    shop.brokers.ip_rates["10.0.0.1"] = 4444.0
    await asyncio.sleep(RESYNC_MAX_S)
    await shop.reconcile()
    assert shop.brokers.ip_rates["10.0.0.1"] == 5.0
    assert [event["type"] for event in shop.kube.events("QuotaDriftMended")] == ["Warning"]
    assert shop.brokers.quotas_told - told >= MANY * BROKERS


async def test_two_quotas_on_one_target_are_planned_again_together_and_their_neighbours_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(many_quotas(), BROKERS)
    await shop.reconcile()
    planned = Counted(monkeypatch, plan, "verdict_of")
    shop.kube.put(quota("stricter", "10.0.0.8", rate=2))
    await shop.reconcile()
    assert planned.calls == 2
    assert shop.said("stricter") == ("3/3", "True", "Enforced")
    assert shop.said("q7")[1:] == ("False", "Conflicted")
    shop.kube.remove("ConnectionQuota", "stricter")
    await shop.reconcile()
    assert planned.calls == 3
    assert shop.brokers.ip_rates["10.0.0.8"] == 5.0
    assert shop.said("q7") == ("3/3", "True", "Enforced")


async def test_a_changed_quota_is_not_told_as_in_force_before_brokers_were_seen_to_have_it() -> None:
    shop = Shop(many_quotas(), BROKERS)
    await shop.reconcile()
    governed = shop.governed
    shop.brokers.lags.update(range(BROKERS))
    shop.kube.put(quota("q7", "10.0.0.8", rate=9))
    enforcing = asyncio.create_task(shop.enforce())
    await asyncio.sleep(0.5)
    for _ in governed.assess(shop.context.first_seen, shop.now(), names=["q7"]):
        pass
    await shop.tell()
    assert shop.kube.take("ConnectionQuota", "q7")["status"]["observedGeneration"] == 1
    shop.brokers.lags.clear()
    await enforcing
    await shop.tell()
    assert shop.kube.take("ConnectionQuota", "q7")["status"]["observedGeneration"] == 2
    assert shop.said("q7") == ("3/3", "True", "Enforced")


async def test_a_limit_that_could_not_be_sent_is_sent_by_the_next_pass() -> None:
    shop = Shop(many_quotas(), BROKERS)
    await shop.reconcile()
    for peer in shop.brokers.peers:
        peer.refuse = True
        for open_one in peer.connections:
            open_one.hang_up()
    shop.kube.put(quota("q7", "10.0.0.8", rate=9))
    shop.kube.remove("ConnectionQuota", "q8")
    await shop.reconcile()
    assert shop.said("q7")[1] == "False"
    for peer in shop.brokers.peers:
        peer.refuse = False
    await asyncio.sleep(5.0)
    await shop.reconcile()
    assert shop.brokers.ip_rates["10.0.0.8"] == 9.0
    assert "10.0.0.9" not in shop.brokers.ip_rates
    assert shop.said("q7") == ("3/3", "True", "Enforced")


async def test_a_new_broker_is_asked_for_everything_and_the_others_for_nothing() -> None:
    shop = Shop(many_quotas(), BROKERS)
    await shop.reconcile()
    told = shop.brokers.quotas_told
    shop.governed.brokers.ledger.forget(2)
    await shop.reconcile()
    assert shop.brokers.quotas_told - told == MANY


async def test_planning_lets_others_have_the_loop_after_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Counted(monkeypatch, plan, "verdict_of")
    shop = Shop(many_quotas(), BROKERS)
    snapshot = await shop.gather()
    planner, most, before = PlannedQuotas(), 0, 0
    for _ in planner.update(snapshot.cluster, snapshot.listeners, snapshot.quotas, shop.now()):
        most, before = max(most, planned.calls - before), planned.calls
    assert planned.calls == MANY
    assert 0 < most <= PLANNED_PER_SLICE < COMPARED_PER_SLICE


async def test_counts_of_more_addresses_than_kafka_keeps_in_one_value_are_refused_to_the_youngest() -> None:
    kube = MemoryKube(cluster(1))
    for number in range(700):
        one = quota(f"q{number:03}", f"2001:db8:aaaa:bbbb:cccc:dddd:eeee:{number + 4096:x}", rate=5)
        one["spec"]["maxConnections"] = 2147483647
        one["metadata"]["creationTimestamp"] = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
        kube.put(one)
    shop = Shop(kube, brokers=1)
    await shop.reconcile()
    value = shop.brokers.defaults["max.connections.per.ip.overrides"]
    assert 32_700 < len(value) <= 32_767
    assert shop.said("q000") == ("1/1", "True", "Enforced")
    assert shop.said("q699")[1:] == ("False", "TooManyAddresses")
    assert "at most 32767 bytes" in kube.condition("ConnectionQuota", "q699")["message"]
    assert kube.take("ConnectionQuota", "q699")["status"]["effective"] == {"maxConnectionCreationRate": 5}
    assert shop.brokers.ip_rates["2001:db8:aaaa:bbbb:cccc:dddd:eeee:12bb"] == 5.0
    kube.remove("ConnectionQuota", "q000")
    refused = [name for name in kube.names("ConnectionQuota") if shop.said(name)[2] == "TooManyAddresses"]
    await shop.reconcile()
    assert shop.said(refused[0]) == ("1/1", "True", "Enforced"), "the oldest that was refused has room now"
