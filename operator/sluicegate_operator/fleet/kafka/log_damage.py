"""Read the unreadable offsets of each broker of a cluster, over separate connections."""

import asyncio
from collections.abc import Iterable

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity
from sluicegate_operator.kafka_admin.views import DamagedReplica
from sluicegate_operator.planning.status.log_damage import BrokerDamage

ASK_TIMEOUT_S = 2.0
ASKED_AT_A_TIME = 16
_RANGES_NAMED_MAX = 3


async def ask_log_damage(
    brokers: Iterable[BrokerAddress], security: ClientSecurity = PLAINTEXT
) -> dict[int, BrokerDamage]:
    """Return the damaged offsets by broker id. A broker that does not answer is left out."""
    slots = asyncio.Semaphore(ASKED_AT_A_TIME)
    found: dict[int, BrokerDamage] = {}

    async def ask(broker: BrokerAddress) -> None:
        address, timeout_s = (broker.host, broker.port), ASK_TIMEOUT_S
        async with slots, AdminClient([address], request_timeout_s=timeout_s, security=security) as client:
            try:
                told = await client.describe_log_damage()
            except KafkaAdminError:
                return
            found[broker.broker_id] = BrokerDamage(told.ranges_total, tuple(_sentence(one) for one in told.replicas))

    await asyncio.gather(*(ask(broker) for broker in brokers))
    return found


def _sentence(replica: DamagedReplica) -> str:
    if not replica.ranges:
        return f"{replica.topic}-{replica.partition}: {replica.repair}"
    named = ", ".join(f"{one.first} to {one.last}" for one in replica.ranges[:_RANGES_NAMED_MAX])
    more = len(replica.ranges) - _RANGES_NAMED_MAX
    ranges = f"{named} and {more} more ranges" if more > 0 else named
    return f"offsets {ranges} of {replica.topic}-{replica.partition} cannot be read; {replica.repair}"
