"""The operator's quota path sets, moves and lifts rates of the cluster on a running broker."""

import asyncio

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.kafka.broker_limits import Questions, read_limits
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.limits.connection_groups import CONNECTION_GROUP, group_limits, membership
from sluicegate_operator.planning.limits.limits import IP, DesiredLimits, ObservedLimits, ip_rates, is_limit_key
from sluicegate_operator.quotas.brokers import WantedLimits, enforce
from tests.support.processes.single_node import running_node

RATE = "listener.name.external.max.connection.creation.rate"
SCOPE = "listener.name.external.connection.quota.scope"
COUNTS = "max.connections.per.ip.overrides"
GROUP = group_limits("default/q", 300, 9, shared=True, observe=False, of_cluster=True)
OBSERVED = group_limits("default/q", 300, None, shared=True, observe=True, of_cluster=True)
MEMBER = membership("default/q", {"10.0.0.1": 1.0})
STEPS = (
    DesiredLimits({RATE: "300", SCOPE: "cluster"}, GROUP | MEMBER),
    DesiredLimits({RATE: "50", COUNTS: "10.0.0.1:9"}, ip_rates({"10.0.0.1": 5.0})),
    DesiredLimits({"max.connection.creation.rate": "300", "connection.quota.scope": "cluster"}, OBSERVED | MEMBER),
    DesiredLimits({}, group_limits("default/q", 300, 9, shared=True, observe=False) | MEMBER),
    DesiredLimits(),
)


async def test_rates_of_the_cluster_are_set_moved_and_lifted() -> None:
    with running_node("sluicegate") as node:
        async with AdminClient([(node.host, node.port)]) as admin:
            pool = BrokerPool(admin, (BrokerAddress(node.node_id, node.host, node.port),))
            for desired in STEPS:
                wanted = WantedLimits(desired, asyncio.get_running_loop().time(), deadline_s=60)
                result = await enforce(pool, wanted)
                assert (result.is_complete, result.failures) == (True, ())
                [seen] = (await read_limits(pool, Questions({node.node_id: None}, 0, (IP, CONNECTION_GROUP)))).values()
                assert isinstance(seen, ObservedLimits)
                assert {key: value for key, value in seen.default.items() if is_limit_key(key)} == desired.configs
                assert seen.quotas == desired.quotas
