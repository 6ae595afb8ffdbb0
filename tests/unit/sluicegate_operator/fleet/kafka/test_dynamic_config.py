"""Dynamic configuration over an in-memory cluster."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from sluicegate_operator.fleet.kafka.dynamic_config import ConfigResult, WantedConfig, enforce_config
from tests.support.fakes.scripted_cluster import REFUSED, ScriptedCluster

pytestmark = pytest.mark.virtual_time

RETENTION, MESSAGE = "log.retention.ms", "message.max.bytes"


class Memory:
    """The remembered keys, with the brokers' values at that moment."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._cluster = cluster
        self.kept: list[tuple[tuple[str, ...], dict[str, str]]] = []

    async def __call__(self, keys: tuple[str, ...]) -> None:
        self.kept.append((keys, dict(self._cluster.defaults)))


async def run(
    cluster: ScriptedCluster, desired: Mapping[str, str], managed: Collection[str], memory: Memory
) -> ConfigResult:
    pool = cluster.pool()
    async with pool.admin:
        return await enforce_config(pool, WantedConfig(desired, managed, memory, deadline_s=0.02))


async def test_a_key_is_remembered_before_it_is_set_and_then_seen_on_every_broker() -> None:
    cluster = ScriptedCluster(brokers=3)
    memory = Memory(cluster)
    result = await run(cluster, {RETENTION: "7"}, (), memory)
    assert memory.kept == [((RETENTION,), {})]
    assert cluster.defaults == {RETENTION: "7"}
    assert result.is_complete
    assert result.managed == (RETENTION,)


async def test_a_key_removed_from_the_manifest_is_reset_and_forgotten_once_it_is_gone() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {RETENTION: "7", MESSAGE: "9"}
    memory = Memory(cluster)
    result = await run(cluster, {}, (RETENTION,), memory)
    assert cluster.defaults == {MESSAGE: "9"}, "what somebody else set stays"
    assert memory.kept == [((), {MESSAGE: "9"})]
    assert result.is_complete


async def test_nothing_is_sent_or_remembered_when_nothing_differs() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {RETENTION: "7"}
    memory = Memory(cluster)
    result = await run(cluster, {RETENTION: "7"}, (RETENTION,), memory)
    assert (cluster.alterations, memory.kept, result.changes) == (0, [], ())
    assert result.is_complete


async def test_an_offline_broker_leaves_the_result_incomplete_and_the_others_are_set() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.peers[1].refuse = True
    result = await run(cluster, {RETENTION: "7"}, (), Memory(cluster))
    assert cluster.defaults == {RETENTION: "7"}
    assert (dict(result.lagging), list(result.unseen)) == ({}, [1])
    assert not result.is_complete


async def test_a_refused_value_is_told() -> None:
    cluster = ScriptedCluster(brokers=1)
    result = await run(cluster, {RETENTION: REFUSED, MESSAGE: "9"}, (), Memory(cluster))
    assert cluster.defaults == {MESSAGE: "9"}
    assert len(result.failures) == 1
    assert f"{RETENTION} is not {REFUSED}" in result.lagging[0]


async def test_a_key_whose_value_is_refused_is_not_ours_and_the_value_of_others_stays() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {RETENTION: "-1"}
    memory = Memory(cluster)
    result = await run(cluster, {RETENTION: REFUSED, MESSAGE: "9"}, (), memory)
    assert [keys for keys, _ in memory.kept] == [(RETENTION, MESSAGE), (MESSAGE,)]
    await run(cluster, {MESSAGE: "9"}, result.managed, memory)
    assert cluster.defaults == {RETENTION: "-1", MESSAGE: "9"}


async def test_a_key_of_ours_whose_new_value_is_refused_stays_ours() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.defaults = {RETENTION: "7"}
    result = await run(cluster, {RETENTION: REFUSED}, (RETENTION,), Memory(cluster))
    assert result.managed == (RETENTION,)


async def test_a_broker_that_shows_it_a_moment_later_is_waited_for() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.lags = {1}
    asyncio.get_running_loop().call_later(0.02, cluster.lags.clear)
    pool = cluster.pool()
    async with pool.admin:
        result = await enforce_config(pool, WantedConfig({RETENTION: "7"}, (), Memory(cluster), deadline_s=60))
    assert result.is_complete


async def test_a_broker_that_still_shows_the_past_is_lagging() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.lags = {1}
    result = await run(cluster, {RETENTION: "7"}, (), Memory(cluster))
    assert result.lagging == {1: f"{RETENTION} is not 7"}
