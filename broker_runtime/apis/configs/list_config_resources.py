"""ListConfigResources (74), versions 0 to 1 (KIP-1000, KIP-1142): the resources that have a configuration.

Version 0 lists only client metrics subscriptions. Groups are listed if they have their own configuration.
"""

from collections.abc import Iterable

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.configs import ResourceType
from broker_runtime.slicing.steps import Steps, distinct, each, in_order
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ListConfigResourcesRequest
from broker_runtime.wire.versions import LIST_CONFIG_RESOURCES

_CLIENT_METRICS, _GROUP = int(ResourceType.CLIENT_METRICS), int(ResourceType.GROUP)


def handle(request: ListConfigResourcesRequest, call: Call, context: NodeContext) -> Steps[Fields]:
    topics = yield from in_order(list(context.image.topics))
    brokers = [str(broker) for broker in sorted(context.image.brokers)]
    names = {
        int(ResourceType.TOPIC): topics,
        int(ResourceType.BROKER): brokers,
        int(ResourceType.BROKER_LOGGER): brokers,
        _CLIENT_METRICS: sorted(context.image.configs.names(_CLIENT_METRICS)),
        _GROUP: sorted(context.image.configs.names(_GROUP)),
    }
    asked: Iterable[int] = (_CLIENT_METRICS,) if call.version == 0 else (yield from distinct(request.resource_types))
    wanted = tuple(asked) or tuple(names)
    if any(kind not in names for kind in wanted):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "config_resources": []}
    found: list[Fields] = []
    for kind in wanted:
        found += yield from each(names[kind], lambda name, kind=kind: {"resource_name": name, "resource_type": kind})  # type: ignore[misc]
    return {"error_code": ErrorCode.NONE, "config_resources": found}


API = ApiSpec(key=LIST_CONFIG_RESOURCES, name="ListConfigResources", versions=(0, 1), handle=handle)
