"""The quota path against running brokers: Apache Kafka and ours are governed by the same code."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.enforce import Enforcement, EnforcementResult, enforce, observe_limits
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.planning.quotas import DesiredLimits, ObservedLimits
from tests.support.apache_kafka import KafkaUnavailable
from tests.support.single_node import IMPLEMENTATIONS, SingleNode, running_node

RATE = "max.connection.creation.rate"
EXTERNAL_RATE = f"listener.name.external.{RATE}"
LIMITS = DesiredLimits(
    {
        EXTERNAL_RATE: "50",
        RATE: "500",
        "max.connections.per.ip": "90",
        "max.connections.per.ip.overrides": "127.0.1.8:4",
    },
    {None: 100.0, "127.0.1.7": 5.0},
)


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def node(request: pytest.FixtureRequest) -> Iterator[SingleNode]:
    with ExitStack() as stop:
        try:
            running = stop.enter_context(running_node(request.param))
        except KafkaUnavailable as error:
            pytest.skip(str(error))
        yield running


@pytest.fixture
async def pool(node: SingleNode) -> AsyncIterator[BrokerPool]:
    async with AdminClient([(node.host, node.port)]) as admin:
        pool = BrokerPool(admin, (BrokerAddress(node.node_id, node.host, node.port),))
        yield pool
        assert (await run(pool, DesiredLimits())).is_complete


async def run(pool: BrokerPool, desired: DesiredLimits) -> EnforcementResult:
    return await enforce(pool, Enforcement(desired, asyncio.get_running_loop().time(), deadline_s=10))


async def test_limits_are_enforced_changed_and_lifted_in_well_under_a_second(pool: BrokerPool) -> None:
    steps = [LIMITS, DesiredLimits({EXTERNAL_RATE: "20"}, {"127.0.1.7": 6.0}), DesiredLimits()]
    results = [await run(pool, desired) for desired in steps]
    assert [result.is_complete for result in results] == [True] * 3
    took_s = [result.took_s for result in results]
    assert max(took for took in took_s if took is not None) < 1
    assert results[-1].observed == {pool.brokers[0].broker_id: ObservedLimits()}


async def test_what_is_enforced_already_is_left_alone(pool: BrokerPool) -> None:
    await run(pool, LIMITS)
    again = await run(pool, LIMITS)
    assert again.is_complete
    assert again.changes == ()


async def seen_by_the_broker(pool: BrokerPool, own_key: str, ip: str) -> None:
    async with asyncio.timeout(10):
        while True:
            (seen,) = (await observe_limits(pool)).values()
            if isinstance(seen, ObservedLimits) and own_key in seen.own and ip in seen.ip_rates:
                return
            await asyncio.sleep(0.01)


async def test_a_limit_that_someone_set_by_hand_is_mended(pool: BrokerPool, node: SingleNode) -> None:
    await run(pool, LIMITS)
    by_hand = ConfigChange(set={EXTERNAL_RATE: "100000", "max.connections": "3000"})
    await pool.admin.incremental_alter_configs(node.node_id, by_hand)
    await pool.admin.alter_ip_quotas({"127.0.1.7": 1000.0, "127.0.1.99": 1.0})
    await seen_by_the_broker(pool, EXTERNAL_RATE, "127.0.1.99")
    mended = await run(pool, LIMITS)
    assert mended.changes
    assert mended.is_complete
    assert (await run(pool, LIMITS)).changes == ()


async def test_a_value_that_the_brokers_refuse_is_reported_and_the_rest_is_enforced(pool: BrokerPool) -> None:
    result = await run(pool, DesiredLimits({RATE: "500"}, {"127.0.1.7": 5.0, "127.0.1.8": 0.5}))
    (failure,) = result.failures
    assert "altering the ip quota of 127.0.1.8: INVALID_REQUEST" in str(failure.error)
    assert not result.is_complete
    assert (await run(pool, DesiredLimits({RATE: "500"}, {"127.0.1.7": 5.0}))).changes == ()
