"""BrokerMetadata (30000), version 0: what brokers report about themselves (the first draft of KIP-35).

Any broker answers from the metadata about all registered brokers, even those that are offline. Unregistered brokers are
omitted. A broker without the listener on which the request arrived has an empty host and port -1. ApiVersions does not
list this API.

Requests and answers are read and packed by hand, over many iterations of the event loop, because a hundred brokers may
have ten thousand tags.
"""

from collections.abc import Awaitable, Sequence
from struct import Struct, unpack

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.apis.request.many_items import Pace, Packed
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.broker_tags import broker_tags
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, string
from broker_runtime.wire.reply import Reply
from kafka_bytes.own_keys import BROKER_METADATA

_THIS_BROKER = -1
"""Node id that stands for the broker that receives the request."""
_NOWHERE = ("", -1)
"""Host and port of an unknown node, as in Kafka."""
_ID = Struct(">i")
_PORT_AND_VERSIONS = Struct(">iii")


def handle(reader: RequestReader, call: Call, context: NodeContext) -> Awaitable[Reply]:
    brokers, own_id = context.image.brokers, context.settings.node_id
    asked = dict.fromkeys(own_id if one == _THIS_BROKER else one for one in _node_ids(reader))
    return _answer([brokers[one] for one in asked or sorted(brokers) if one in brokers], call, context)


def _node_ids(reader: RequestReader) -> Sequence[int]:
    count = reader.array_length()
    return unpack(f">{count}i", reader.view(count * _ID.size))


async def _answer(brokers: Sequence[BrokerInfo], call: Call, context: NodeContext) -> Reply:
    packed = Packed(Pace(call), array_length(len(brokers), flexible=False))
    for broker in brokers:
        await packed.add(_packed(broker, call.listener, context))
    return packed.reply(call)


def _packed(broker: BrokerInfo, listener: str, context: NodeContext) -> bytes:
    endpoint = broker.endpoint(listener)
    host, port = _NOWHERE if endpoint is None else (endpoint.host, endpoint.port)
    tags = broker_tags(broker, context.image.configs)
    return b"".join(
        (
            _ID.pack(broker.id),
            string(host, flexible=False),
            _PORT_AND_VERSIONS.pack(port, *broker.protocol_versions),
            array_length(len(tags), flexible=False),
            *(string(text, flexible=False) for tag in tags for text in tag),
        )
    )


API: ApiSpec[NodeContext] = ApiSpec(
    key=BROKER_METADATA, name="BrokerMetadata", versions=(0, 0), handle=handle, reads="frame"
)
