"""The operator's quota path sets and lifts an adaptive rate of a running broker."""

import asyncio

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.kafka.broker_limits import observe_limits
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.limits.limits import DesiredLimits, ObservedLimits, is_limit_key
from sluicegate_operator.quotas.brokers import WantedLimits, enforce
from tests.support.processes.single_node import running_node

RATE = "listener.name.external.max.connection.creation.rate"
ADAPTIVE = "listener.name.external.connection.quota.adaptive."
STEPS: tuple[dict[str, str], ...] = (
    {RATE: "200", f"{ADAPTIVE}p99.ms": "20", f"{ADAPTIVE}min.rate": "10"},
    {RATE: "5", f"{ADAPTIVE}p99.ms": "50", f"{ADAPTIVE}min.rate": "5"},
    {RATE: "5"},
    {},
)


async def test_an_adaptive_rate_is_set_changed_and_lifted() -> None:
    with running_node("sluicegate") as node:
        async with AdminClient([(node.host, node.port)]) as admin:
            pool = BrokerPool(admin, (BrokerAddress(node.node_id, node.host, node.port),))
            for keys in STEPS:
                wanted = WantedLimits(DesiredLimits(keys), asyncio.get_running_loop().time(), deadline_s=60)
                result = await enforce(pool, wanted)
                assert (result.is_complete, result.failures) == (True, ())
                [seen] = (await observe_limits(pool)).values()
                assert isinstance(seen, ObservedLimits)
                assert {key: value for key, value in seen.default.items() if is_limit_key(key)} == keys
