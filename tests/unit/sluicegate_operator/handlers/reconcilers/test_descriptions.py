"""The descriptions of brokers: when they are read, and when they cause a reconcile of registrations."""

import asyncio
from collections.abc import Iterable

import pytest

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers import descriptions
from sluicegate_operator.handlers.reconcilers.descriptions import UNDESCRIBED_RETRY, DescriptionReconciler
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kafka_admin.errors import AdminConnectionError
from sluicegate_operator.kafka_admin.log_damage import SINCE_PROTOCOL
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity
from sluicegate_operator.planning.registrations.registrations import BrokerWords
from sluicegate_operator.planning.status.log_damage import BrokerDamage
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import cluster

SHOP = ("default", "shop")
AT = BrokerAddress(0, "b0", 9092, up=True)


class Shop:
    """A cluster whose brokers describe themselves by `words`, or cannot be asked.

    `marked` are the queues marked for it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *objects: dict[str, object]) -> None:
        self.words: dict[int, BrokerWords] | None = {}
        self.addresses: tuple[BrokerAddress, ...] = (AT,)
        self.marked: list[str] = []
        self.asked = 0
        self.context = Context(MemoryKube(*objects), read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda queue, _: self.marked.append(queue)
        monkeypatch.setattr(KubernetesFleet, "broker_addresses", self._where)
        monkeypatch.setattr(descriptions, "ask_descriptions", self._say)
        self.damage: dict[int, BrokerDamage] = {}
        self.asked_for_damage: list[list[int]] = []
        monkeypatch.setattr(descriptions, "ask_log_damage", self._say_damage)
        self.reconcile = DescriptionReconciler(self.context).reconcile

    async def _where(self, *_: object) -> tuple[BrokerAddress, ...]:
        return self.addresses

    async def _say(self, _: Iterable[BrokerAddress], __: ClientSecurity) -> dict[int, BrokerWords]:
        self.asked += 1
        if self.words is None:
            raise AdminConnectionError(("b0", 9092), "the broker closed the connection")
        return self.words

    async def _say_damage(self, brokers: Iterable[BrokerAddress], _: ClientSecurity) -> dict[int, BrokerDamage]:
        asked = [one.broker_id for one in brokers]
        self.asked_for_damage += [asked] if asked else []
        return {broker: one for broker, one in self.damage.items() if broker in asked}


async def test_brokers_are_asked_for_damage_and_new_damage_marks_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, cluster())
    down = BrokerAddress(1, "b1", 9092, up=False)
    shop.addresses = (AT, down, BrokerAddress(2, "b2", 9092))
    shop.words = {broker: BrokerWords("0.1.0", 1, SINCE_PROTOCOL - (broker == 2), {}) for broker in (0, 1, 2)}
    shop.damage = {0: BrokerDamage(0, ())}
    await shop.reconcile(SHOP)
    assert shop.asked_for_damage == [[0]], "one is down, and one of an older release"
    assert set(shop.marked) == {"registrations", "clusters"}
    assert shop.context.progress[SHOP].damage == shop.damage
    shop.marked.clear()
    shop.damage = {0: BrokerDamage(1, ("offsets 3 to 3 of orders-0 cannot be read",))}
    soon = await shop.reconcile(SHOP)
    assert shop.marked == ["clusters"]
    before, shop.damage = shop.damage, {}
    await shop.reconcile(SHOP)
    assert shop.context.progress[SHOP].damage == before, "it has not answered"
    shop.damage = {0: BrokerDamage(0, ())}
    later = await shop.reconcile(SHOP)
    assert isinstance(soon, float)
    assert isinstance(later, float)
    assert later > 2 * soon
    shop.addresses = shop.addresses[1:]
    await shop.reconcile(SHOP)
    assert shop.context.progress[SHOP].damage is None, "it is not one of the cluster any more"


async def test_only_what_is_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, cluster())
    for tags, marks in (({"zone": "a"}, 1), ({"zone": "a"}, 1), ({"zone": "b"}, 2), ({}, 3), ({}, 3)):
        shop.words = {0: BrokerWords("0.1.0", 1, 2, dict(tags))}
        assert isinstance(await shop.reconcile(SHOP), float)
        assert [queue for queue in shop.marked if queue == "registrations"] == ["registrations"] * marks
        assert shop.context.progress[SHOP].described == shop.words


async def test_descriptions_are_kept_while_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, cluster())
    before = shop.words = {0: BrokerWords("0.1.0", 1, 2, {"zone": "a"})}
    await shop.reconcile(SHOP)
    shop.words = None
    assert await shop.reconcile(SHOP) == UNDESCRIBED_RETRY
    shop.addresses = ()
    assert await shop.reconcile(SHOP) == UNDESCRIBED_RETRY
    assert shop.asked == 2, "nobody is asked where there is no address"
    assert shop.context.progress[SHOP].described == before
    assert shop.marked == ["registrations", "clusters"]


async def test_a_release_that_changes_is_for_the_status_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, cluster())
    for version, marks in (("0.1.0", 1), ("0.1.0", 1), ("0.2.0", 2)):
        shop.words = {0: BrokerWords(version, 1, 2, {})}
        await shop.reconcile(SHOP)
        assert shop.marked.count("clusters") == marks


async def test_damage_of_an_earlier_cluster_of_the_name_is_not_noted_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, cluster())
    asked, answer = asyncio.Event(), asyncio.Event()
    shop.damage = {0: BrokerDamage(1, ("offsets 3 to 3 of orders-0 cannot be read",))}

    async def say_late(_: Iterable[BrokerAddress], __: ClientSecurity) -> dict[int, BrokerWords]:
        asked.set()
        await answer.wait()
        return {0: BrokerWords("0.1.0", 1, SINCE_PROTOCOL, {})}

    monkeypatch.setattr(descriptions, "ask_descriptions", say_late)
    late = asyncio.create_task(shop.reconcile(SHOP))
    await asked.wait()
    await shop.context.forget_cluster(SHOP)
    answer.set()
    await late
    kube = MemoryKube(cluster() | {"metadata": {"name": "shop", "uid": "of-the-next"}})
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    progress = shop.context.progress.of(found)
    assert (progress.damage, progress.described) == (None, {})


async def test_a_deleted_cluster_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch)
    assert await shop.reconcile(SHOP) is None
    assert shop.asked == 0
