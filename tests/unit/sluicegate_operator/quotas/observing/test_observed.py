"""Readings of the effect of brokers' limits: into the statuses of their quotas, at a pace, and with few writes."""

import asyncio
import json
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.fleet.kafka.http_get import Address, HttpAnswer
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.planning.limits.limits import Missing, ObservedLimits
from sluicegate_operator.quotas.observing import observed as observed_module
from sluicegate_operator.quotas.observing.holding import QUIET_S
from sluicegate_operator.quotas.observing.observed import (
    CHANGES_MAX,
    HOLDING_PACE_S,
    LIMITS_WITH_THROTTLED,
    PACE_S,
    ObservedReconciler,
)
from sluicegate_operator.quotas.plan import Scope
from sluicegate_operator.quotas.state.known import ClusterFacts, KnownBrokers
from sluicegate_operator.quotas.state.state import GovernedQuotas
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.unit.sluicegate_operator.quotas.state.test_state import NOW, ON_LISTENER
from tests.unit.sluicegate_operator.quotas.test_reconcile import LISTENER, cluster, quota

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
OBSERVING = quota("looking", "10.0.0.9") | {
    "spec": {
        "clusterRef": {"name": "shop"},
        "target": {"cidr": "10.0.0.0/8"},
        "maxConnectionCreationRate": 5,
        "mode": "Observe",
    }
}


class Brokers:
    """Answer over HTTP. `blocked` is the share of their listener, `refused` counts by address."""

    def __init__(self, count: int = 2) -> None:
        self.places = {number: ("b", number) for number in range(count)}
        self.blocked = 0.0
        self.refused: dict[str, int] = {}
        self.rates: dict[int, int] = {}
        """Adaptive rates of the listener, by broker."""
        self.shares: dict[int, float] = {}
        """Shares in the rate of the cluster, of the listener and of all groups, by broker."""
        self.groups: list[str] = []
        self.away: set[int] = set()
        self.asked: list[str] = []

    async def get(self, place: Address, path: str, **_: Any) -> HttpAnswer:
        self.asked.append(path)
        if place[1] in self.away:
            raise ConnectionRefusedError("away")
        if path == LIMITS_WITH_THROTTLED:
            return HttpAnswer(200, json.dumps(self._limits(place[1])))
        group = {"would_hold": {}, "cluster": self._share(place[1])}
        return HttpAnswer(200, json.dumps({"groups": dict.fromkeys(self.groups, group), "next": None}))

    def _share(self, number: int) -> Json | None:
        if number not in self.shares:
            return None
        now = {"share": self.shares[number], "demand": 1, "brokers": 2, "age_s": 0.2, "state": "granted"}
        return {"rate": 300} | now

    def _limits(self, number: int) -> Json:
        nothing = {"rate": 0, "connections": 0}
        listener: Json = {"held": {"rate": 7, "connections": 0}, "blocked_share": self.blocked}
        if number in self.rates:
            adaptive = {"min_rate": 50, "max_rate": 2000, "reason": "objective missed", "unchanged_s": 2.0}
            listener |= {"connection_creation_rate": self.rates[number], "adaptive": adaptive}
        listener["cluster"] = self._share(number)
        return {
            "broker": {"held": nothing, "blocked_share": 0.0},
            "listeners": {"EXTERNAL": listener},
            "default_ip": {"held": nothing},
            "ips": {ip: {"held": {"rate": count, "connections": 0}} for ip, count in self.refused.items()},
            "groups": {},
            "left_out": 0,
        }


class Shop:
    def __init__(self, brokers: Brokers, *quotas: Json) -> None:
        self.brokers = brokers
        self.marked: list[str] = []
        self.context = Context(MemoryKube(), read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda queue, _: self.marked.append(queue)
        facts = ClusterFacts(tuple(brokers.places), strategy="token-bucket")
        self.governed = GovernedQuotas(brokers=KnownBrokers(facts=facts))
        found = [parse_resource(document) for document in (cluster(2), LISTENER, *quotas)]
        [shop] = [one for one in found if isinstance(one, BrokerCluster)]
        ports = [one for one in found if isinstance(one, BrokerListener)]
        wanted = [one for one in found if isinstance(one, ConnectionQuota)]
        for _ in self.governed.replan(shop, Scope.of(shop, ports), wanted, {}, NOW):
            pass
        for number in brokers.places:
            seen = ObservedLimits(listeners=frozenset(("EXTERNAL",)))
            self.governed.brokers.ledger.answered(number, ("b", number), None, Missing(frozenset()), seen)
        for _ in self.governed.assess(self.context.first_seen, NOW):
            pass
        while (name := self.governed.statuses.waiting.take()) is not None:
            self.governed.quotas[name].written = self.governed.quotas[name].assessment
        self.again()

    def again(self) -> None:
        """Start another process, which knows only the statuses."""

        async def places(_: object) -> dict[int, Address]:
            return self.brokers.places

        self._reconciler = ObservedReconciler(self.context, {SHOP: self.governed}, places)

    async def look(self) -> object:
        """Time of the next check."""
        return await self._reconciler.reconcile(SHOP)

    def write(self) -> list[str]:
        """Statuses that would be written now."""
        written = []
        while (name := self.governed.statuses.waiting.take()) is not None:
            known = self.governed.quotas[name]
            before, known.written = known.quota, known.assessment
            status = self.governed.status(name, NOW, NOW)
            assert status is not None
            self.governed.note_written(before, before.model_copy(update={"status": status}))
            written.append(name)
        return written

    def summary(self, name: str) -> str:
        found = self.governed.quotas[name].quota.status.holding
        return found.summary if found is not None else ""


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(observed_module, "http_get", made.get)
    return made


async def test_nothing_is_written_while_nothing_is_held(brokers: Brokers) -> None:
    shop = Shop(brokers, ON_LISTENER, quota("one", "10.0.0.1"))
    for _ in range(3):
        assert await shop.look() == PACE_S
        await asyncio.sleep(PACE_S)
    assert shop.write() == []
    assert shop.marked == []
    assert brokers.asked == [LIMITS_WITH_THROTTLED] * 6, "one question to each broker"


async def test_a_delaying_listener_is_reported_and_read_more_often(brokers: Brokers) -> None:
    shop = Shop(brokers, ON_LISTENER)
    brokers.blocked = 0.82
    assert await shop.look() == HOLDING_PACE_S
    assert shop.marked == [Queue.STATUSES]
    assert shop.write() == ["on-listener"]
    assert shop.summary("on-listener") == "80% of time"
    assert shop.governed.quotas["on-listener"].quota.status.strategy == "token-bucket"
    for share in (0.84, 0.75, 0.88):
        brokers.blocked = share
        await asyncio.sleep(HOLDING_PACE_S)
        await shop.look()
    assert shop.write() == [], "a storm that goes on is no news"


async def test_a_figure_is_removed_when_its_limit_was_idle_for_a_while(brokers: Brokers) -> None:
    shop = Shop(brokers, ON_LISTENER)
    brokers.blocked = 0.82
    await shop.look()
    shop.write()
    brokers.blocked = 0.0
    shop.again()
    for _ in range(int(QUIET_S / HOLDING_PACE_S)):
        assert await shop.look() == HOLDING_PACE_S
        await asyncio.sleep(HOLDING_PACE_S)
    assert shop.write() == []
    assert await shop.look() == PACE_S
    assert shop.write() == ["on-listener"]
    assert shop.summary("on-listener") == ""


async def test_addresses_are_refused_so_many_a_second(brokers: Brokers) -> None:
    shop = Shop(brokers, quota("one", "10.0.0.1"), quota("two", "10.0.0.2"))
    brokers.refused = {"10.0.0.1": 5, "192.0.2.9": 900}
    await shop.look()
    assert shop.write() == []
    brokers.refused["10.0.0.1"] += 60
    await asyncio.sleep(PACE_S)
    await shop.look()
    assert shop.write() == ["one"]
    assert shop.summary("one") == "4/s", "of both brokers"


async def test_the_number_of_statuses_written_per_reading_is_limited(brokers: Brokers) -> None:
    addresses = [f"10.0.1.{number}" for number in range(CHANGES_MAX + 20)]
    shop = Shop(brokers, *(quota(f"q{number}", address) for number, address in enumerate(addresses)))
    brokers.refused = dict.fromkeys(addresses, 0)
    await shop.look()
    await asyncio.sleep(PACE_S)
    brokers.refused = dict.fromkeys(addresses, 100)
    await shop.look()
    assert len(shop.write()) == CHANGES_MAX
    await asyncio.sleep(HOLDING_PACE_S)
    brokers.refused = dict.fromkeys(addresses, 130)
    await shop.look()
    assert len(shop.write()) == 20


@pytest.mark.parametrize("gone", [False, True])
async def test_a_figure_is_removed_when_no_broker_answered_for_a_while(brokers: Brokers, gone: bool) -> None:
    """`gone`: no broker has an address any more."""
    shop = Shop(brokers, ON_LISTENER)
    brokers.blocked = 0.82
    await shop.look()
    shop.write()
    brokers.away, brokers.places = {0, 1}, {} if gone else brokers.places
    waited_s = 0.0
    while waited_s < QUIET_S:
        await asyncio.sleep(HOLDING_PACE_S)
        waited_s += HOLDING_PACE_S
        assert shop.summary("on-listener") == "80% of time"
        again_s = await shop.look()
        shop.write()
    assert shop.summary("on-listener") == ""
    assert again_s == PACE_S


async def test_figures_beyond_the_limit_of_one_reading_follow_with_the_next(brokers: Brokers) -> None:
    addresses = [f"10.0.1.{number}" for number in range(CHANGES_MAX + 20)]
    shop = Shop(brokers, *(quota(f"q{number}", address) for number, address in enumerate(addresses)))
    for count in (0, 100, 200):
        brokers.refused = dict.fromkeys(addresses, count)
        await shop.look()
        shop.write()
        await asyncio.sleep(PACE_S)
    gone = []
    for _ in range(int(QUIET_S / HOLDING_PACE_S) + 2):
        await shop.look()
        gone.append(len(shop.write()))
        await asyncio.sleep(HOLDING_PACE_S)
    assert [number for number in gone if number] == [CHANGES_MAX, 20]


async def test_a_broker_that_does_not_answer_holds_up_nothing(brokers: Brokers) -> None:
    shop = Shop(brokers, ON_LISTENER)
    brokers.away = {1}
    brokers.blocked = 0.82
    await shop.look()
    shop.write()
    found = shop.governed.quotas["on-listener"].quota.status.holding
    assert found is not None
    assert found.brokers == "1/2"


async def test_a_quota_that_only_observes_has_its_own_question(brokers: Brokers) -> None:
    shop = Shop(brokers, OBSERVING)
    await shop.look()
    assert brokers.asked == ["/connection-quotas?after="] * 2
    assert shop.write() == ["looking"]


async def test_a_cluster_without_limits_is_not_asked(brokers: Brokers) -> None:
    assert await Shop(brokers).look() is None
    brokers.places = {}
    assert await Shop(brokers, ON_LISTENER).look() is None
    assert brokers.asked == []


async def test_a_quota_deleted_during_a_reading_does_not_affect_the_figures_of_others(
    monkeypatch: pytest.MonkeyPatch, brokers: Brokers
) -> None:
    first = OBSERVING | {"metadata": {**OBSERVING["metadata"], "name": "first"}}
    shop = Shop(brokers, first, OBSERVING)

    async def get(place: Address, path: str, **more: Any) -> HttpAnswer:
        shop.governed.quotas.pop("looking", None)
        return await brokers.get(place, path, **more)

    monkeypatch.setattr(observed_module, "http_get", get)
    await shop.look()
    assert shop.write() == ["first"]
    assert shop.marked == [Queue.STATUSES]


async def test_adaptive_rates_come_into_the_status_and_leave_it_with_the_limit(brokers: Brokers) -> None:
    brokers.rates = {0: 2000, 1: 300}
    name = ON_LISTENER["metadata"]["name"]
    adaptive = {"minRate": 50, "maxRate": 2000, "objective": {"requestP99": "20ms"}}
    spec = {key: value for key, value in ON_LISTENER["spec"].items() if key != "maxConnectionCreationRate"}
    shop = Shop(brokers, ON_LISTENER | {"spec": spec | {"adaptive": adaptive}})

    def summary() -> str:
        found = shop.governed.quotas[name].quota.status.adaptive
        return found.summary if found is not None else ""

    for rates, shown, written in (
        ({0: 2000, 1: 300}, "300 to 2000/s", [name]),
        ({0: 2000, 1: 310}, "300 to 2000/s", []),
        ({0: 100, 1: 310}, "100 to 300/s", [name]),
        ({}, "", [name]),
    ):
        brokers.rates = rates
        await shop.look()
        assert (shop.write(), summary()) == (written, shown)
        await asyncio.sleep(PACE_S)


async def test_a_quota_that_another_one_overrides_does_not_keep_adaptive_rates(brokers: Brokers) -> None:
    brokers.rates = {0: 2000}
    adaptive = {"minRate": 50, "maxRate": 2000, "objective": {"requestP99": "20ms"}}
    spec = {key: value for key, value in ON_LISTENER["spec"].items() if key != "maxConnectionCreationRate"}
    meta = ON_LISTENER["metadata"]
    stricter = ON_LISTENER | {"spec": spec | {"adaptive": adaptive}}
    laxer = {
        **ON_LISTENER,
        "metadata": {**meta, "name": "laxer", "uid": "laxer"},
        "spec": spec | {"adaptive": adaptive | {"maxRate": 3000}},
    }
    shop = Shop(brokers, stricter, laxer)
    await shop.look()
    assert shop.write() == [meta["name"]]
    assert shop.governed.quotas["laxer"].adaptive is None


def of_cluster(name: str, **target: Any) -> Json:
    shared = {"limitIs": "Shared"} if "cidr" in target else {}
    spec = {"clusterRef": {"name": "shop"}, "target": target, "maxConnectionCreationRate": 300, "scope": "Cluster"}
    return quota(name, "10.0.0.9") | {"spec": spec | shared}


def shares_of(shop: Shop, name: str) -> str:
    found = shop.governed.quotas[name].quota.status.shares
    return found.summary if found is not None else ""


@pytest.mark.parametrize(
    "target",
    [{"listener": "EXTERNAL"}, {"ip": "10.0.0.1"}, {"cidr": "10.0.0.0/8"}],
    ids=str,
)
async def test_shares_come_into_the_status_and_leave_it_with_the_scope(brokers: Brokers, target: Json) -> None:
    brokers.groups = ["default/one", "elsewhere/one"]
    shop = Shop(brokers, of_cluster("one", **target))
    for given, shown, written in (
        ({0: 20.0, 1: 280.0}, "20 to 280/s", ["one"]),
        ({0: 22.0, 1: 278.0}, "20 to 280/s", []),
        ({0: 150.0, 1: 150.0}, "150/s", ["one"]),
        ({0: 150.0}, "150/s", ["one"]),
    ):
        brokers.shares = given
        await shop.look()
        assert (shop.write(), shares_of(shop, "one")) == (written, shown)
        await asyncio.sleep(PACE_S)
    status = shop.governed.quotas["one"].quota.status
    condition = status.condition("ShareGranted")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NotReported")
    assert status.effective is not None
    assert status.effective.scope == "Cluster"


async def test_groups_are_read_only_for_quotas_that_are_groups(brokers: Brokers) -> None:
    await Shop(brokers, of_cluster("one", listener="EXTERNAL")).look()
    assert set(brokers.asked) == {LIMITS_WITH_THROTTLED}
    await Shop(brokers, of_cluster("one", ip="10.0.0.1")).look()
    assert set(brokers.asked) == {LIMITS_WITH_THROTTLED, "/connection-quotas?after="}


async def test_a_quota_that_a_stricter_one_replaces_has_no_shares(brokers: Brokers) -> None:
    brokers.shares = {0: 150.0, 1: 150.0}
    stricter = ON_LISTENER | {"spec": ON_LISTENER["spec"] | {"maxConnectionCreationRate": 5}}
    shop = Shop(brokers, of_cluster("one", listener="EXTERNAL"), stricter)
    await shop.look()
    assert shop.write() == []
    assert shop.governed.quotas["one"].shares is None


async def test_shares_of_many_quotas_are_written_in_turns(brokers: Brokers) -> None:
    names = [f"q{number:03}" for number in range(CHANGES_MAX + 20)]
    brokers.groups = [f"default/{name}" for name in names]
    shop = Shop(brokers, *(of_cluster(name, ip=f"10.0.1.{number}") for number, name in enumerate(names)))
    seen: set[str] = set()
    for share, count in ((100.0, CHANGES_MAX), (200.0, CHANGES_MAX), (100.0, CHANGES_MAX)):
        brokers.shares = {0: share, 1: share}
        await shop.look()
        written = shop.write()
        assert len(written) == count
        seen |= set(written)
        await asyncio.sleep(PACE_S)
    assert seen == set(names)
