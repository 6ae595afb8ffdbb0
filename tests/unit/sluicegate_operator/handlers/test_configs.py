"""When a difference in dynamic configuration is called drift, and when a broker has only just come."""

import pytest

from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.handlers.configs import ConfigReconciler
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.settings import read_settings
from tests.support.bad_manifests import cluster
from tests.support.memory_kube import MemoryKube
from tests.support.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
KEY = "log.retention.ms"
DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS = 32, 48


class Shop:
    def __init__(self) -> None:
        self.kube = MemoryKube(cluster(config={KEY: "7200000"}))
        self.brokers = ScriptedCluster(3)
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda *_: None
        self.there = self.brokers.pool()
        self.context.pool = self._pool  # type: ignore[method-assign, assignment]
        self._reconciler = ConfigReconciler(self.context)

    async def _pool(self, _: object) -> BrokerPool:
        return self.there

    async def reconcile(self) -> None:
        await self._reconciler.reconcile(SHOP)

    def told(self) -> list[tuple[str, str]]:
        events = [event for name in self.kube.names("Event") for event in [self.kube.take("Event", name)]]
        return sorted((event["type"], event["reason"]) for event in events)


async def test_a_first_setting_is_no_drift_though_a_broker_comes_later() -> None:
    shop = Shop()
    everybody = shop.there
    shop.there = everybody.only(0)
    await shop.reconcile()
    shop.there = everybody
    # It has not read the metadata yet, and so looks as if somebody had taken the key away.
    shop.brokers.lags.add(2)
    await shop.reconcile()
    assert {reason for _, reason in shop.told()} == {"ConfigApplied"}
    shop.brokers.lags.clear()
    await shop.reconcile()
    assert {kind for kind, _ in shop.told()} == {"Normal"}


async def test_a_change_by_hand_is_drift() -> None:
    shop = Shop()
    for _ in range(2):
        await shop.reconcile()
    shop.brokers.defaults[KEY] = "60000"
    await shop.reconcile()
    assert shop.brokers.defaults[KEY] == "7200000"
    assert ("Warning", "ConfigDriftMended") in shop.told()


async def test_a_changed_value_is_looked_at_once_any_broker_has_answered() -> None:
    shop = Shop()
    for peer in shop.brokers.peers:
        peer.script(DESCRIBE_CONFIGS, lambda _: None)
        peer.script(DESCRIBE_CLIENT_QUOTAS, lambda _: None)
    await shop.reconcile()
    assert shop.context.progress[SHOP].config_generation == 0
    shop = Shop()
    await shop.reconcile()
    assert shop.context.progress[SHOP].config_generation == 1


async def test_a_value_that_brokers_refuse_is_told_to_the_cluster() -> None:
    shop = Shop()
    shop.brokers.refused.add("7200000")
    await shop.reconcile()
    assert "INVALID" in shop.context.progress[SHOP].config_refused
    assert shop.told() == [("Warning", "ConfigRefused")]
