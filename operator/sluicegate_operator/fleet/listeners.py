"""Asks brokers which listeners they have open."""

from collections.abc import Mapping

from sluicegate_operator.fleet.asking import BrokerPool, Unreachable
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.planning.listeners import LISTENERS, listener_ports


async def ask_ports(pool: BrokerPool) -> dict[int, Mapping[str, int]]:
    """By broker id, the port of each listener by name; a broker that does not answer is left out."""

    async def look(broker: BrokerAddress, handle: BrokerHandle) -> Mapping[str, int]:
        found = (await handle.describe_broker_configs(broker.broker_id, [LISTENERS])).get(LISTENERS)
        return listener_ports(found.value if found is not None else None)

    answers = await pool.ask_each(look)
    return {broker_id: ports for broker_id, ports in answers.items() if not isinstance(ports, Unreachable)}
