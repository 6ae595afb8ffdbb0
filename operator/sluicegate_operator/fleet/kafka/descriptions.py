"""Read the brokers' reports about themselves, from any broker of the cluster, over a separate connection.

A broker of an earlier release closes the connection on this request, so nothing else is sent on it.
"""

from collections.abc import Iterable

from sluicegate_operator.api.models.parts.broker_tags import BUILT_IN_TAGS, VALUE_MAX, VERSION_TAG
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity
from sluicegate_operator.kafka_admin.views import BrokerDescription
from sluicegate_operator.planning.registrations.registrations import BrokerWords

ASK_TIMEOUT_S = 2.0


async def ask_descriptions(
    brokers: Iterable[BrokerAddress], security: ClientSecurity = PLAINTEXT
) -> dict[int, BrokerWords]:
    """Return the brokers' reports about themselves by broker id, including offline brokers. Raises KafkaAdminError."""
    ready_first = sorted(brokers, key=lambda broker: not broker.up)
    addresses = [(broker.host, broker.port) for broker in ready_first]
    async with AdminClient(addresses, request_timeout_s=ASK_TIMEOUT_S, security=security) as client:
        return {described.id: _words(described) for described in await client.describe_brokers()}


def _words(described: BrokerDescription) -> BrokerWords:
    tags = {name: value[:VALUE_MAX] for name, value in described.tags.items()}
    return BrokerWords(
        tags.get(VERSION_TAG),
        _version(described.protocol_version_min),
        _version(described.protocol_version_max),
        {name: value for name, value in tags.items() if name not in BUILT_IN_TAGS},
    )


def _version(told: int) -> int | None:
    return told if told >= 0 else None
