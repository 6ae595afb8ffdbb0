"""BrokerMetadata (docs/reference/broker-metadata.md): brokers' reports about themselves.

An API of this project's brokers. ApiVersions does not list it: a broker that does not serve it closes the connection,
or answers with nothing.
"""

from collections.abc import Collection

from kio.static.primitive import i32

from kafka_bytes.messages.broker_metadata import BrokerMetadataRequest, BrokerMetadataResponse
from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.views import BrokerDescription


def describe(broker_ids: Collection[int] = ()) -> Exchange[BrokerMetadataResponse, tuple[BrokerDescription, ...]]:
    request = BrokerMetadataRequest(node_ids=tuple(i32(one) for one in broker_ids))
    return Exchange(request, BrokerMetadataResponse, _read, listed=False)


def _read(reply: BrokerMetadataResponse) -> tuple[BrokerDescription, ...]:
    return tuple(
        BrokerDescription(
            id=broker.node_id,
            host=broker.host,
            port=broker.port,
            protocol_version_min=broker.protocol_version_min,
            protocol_version_max=broker.protocol_version_max,
            tags={tag.key: tag.value for tag in broker.tags},
        )
        for broker in reply.brokers
    )
