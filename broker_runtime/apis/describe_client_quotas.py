"""DescribeClientQuotas (48), versions 0 to 1 (KIP-546): any broker answers from its metadata."""

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.describe_quotas import Component, describe_quotas
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeClientQuotasRequest
from broker_runtime.wire.versions import DESCRIBE_CLIENT_QUOTAS


def handle(request: DescribeClientQuotasRequest, call: Call, context: NodeContext) -> Fields:
    components = [Component(c.entity_type, c.match_type, c.match) for c in request.components]
    try:
        found = describe_quotas(components, request.strict, context.image)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": value} for key, value in sorted(values.items())],
            }
            for entity, values in found
        ],
    }


API = ApiSpec(key=DESCRIBE_CLIENT_QUOTAS, name="DescribeClientQuotas", versions=(0, 1), handle=handle)
