"""SaslAuthenticate (36), versions 0 to 2 (KIP-152), outside of an exchange: ILLEGAL_SASL_STATE, as in Apache Kafka.

`authenticator` handles the requests of an exchange.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import SASL_AUTHENTICATE


def handle(request: object, call: Call, context: NodeContext) -> Fields:
    """Refuse a token that follows no handshake."""
    del request, call, context
    text = "SaslAuthenticate request received after successful authentication"
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": text, "auth_bytes": b""}


API = ApiSpec(key=SASL_AUTHENTICATE, name="SaslAuthenticate", versions=(0, 2), handle=handle, on_standby=True)
