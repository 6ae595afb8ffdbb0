"""SaslHandshake (17), versions 0 to 1 (KIP-43), outside of an exchange: ILLEGAL_SASL_STATE, as in Apache Kafka.

`authenticator` handles the requests of an exchange.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import SASL_HANDSHAKE


def handle(request: object, call: Call, context: NodeContext) -> Fields:
    """Refuse a handshake on a connection that needs no authentication now."""
    del request, call, context
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": ()}


API = ApiSpec(key=SASL_HANDSHAKE, name="SaslHandshake", versions=(0, 1), handle=handle, on_standby=True)
