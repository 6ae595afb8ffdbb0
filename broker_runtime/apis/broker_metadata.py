"""BrokerMetadata (30000), version 0: what brokers say of themselves (the first draft of KIP-35).

Answered from the metadata by any broker about each, also while that one is away; a broker that nobody has registered
is left out. A broker without the listener that was asked on has no host and port -1. ApiVersions does not list it.
"""

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, NodeContext
from broker_runtime.errors import ProtocolError
from broker_runtime.metadata.broker_tags import broker_tags
from broker_runtime.metadata.brokers import BrokerInfo
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import BrokerMetadataRequest
from broker_runtime.wire.versions import BROKER_METADATA

_THIS_BROKER = -1
"""As a node id: the broker that is asked."""
_NODE_IDS_MAX = 10_000
"""Of one request: nobody has as many brokers."""
_NOWHERE = ("", -1)
"""As Kafka says it of a node that is not known."""


def handle(request: BrokerMetadataRequest, call: Call, context: NodeContext) -> Fields:
    if len(request.node_ids) > _NODE_IDS_MAX:
        raise ProtocolError("too-large", f"BrokerMetadata asks for {len(request.node_ids)} brokers")
    brokers, own_id = context.image.brokers, context.settings.node_id
    asked = dict.fromkeys(own_id if one == _THIS_BROKER else int(one) for one in request.node_ids)
    return {"brokers": [_described(brokers[one], call, context) for one in asked or sorted(brokers) if one in brokers]}


def _described(broker: BrokerInfo, call: Call, context: NodeContext) -> Fields:
    endpoint = broker.endpoint(call.listener)
    host, port = _NOWHERE if endpoint is None else (endpoint.host, endpoint.port)
    lowest, highest = broker.protocol_versions
    return {
        "node_id": broker.id,
        "host": host,
        "port": port,
        "protocol_version_min": lowest,
        "protocol_version_max": highest,
        "tags": [{"key": name, "value": value} for name, value in broker_tags(broker, context.image.configs)],
    }


API: ApiSpec[NodeContext] = ApiSpec(key=BROKER_METADATA, name="BrokerMetadata", versions=(0, 0), handle=handle)
