"""PushTelemetry (72), version 0 (KIP-714): a client's metrics, which are checked and dropped (`client_telemetry`)."""

from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.client_telemetry import Pushed
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.telemetry.get_telemetry_subscriptions import client_of
from broker_runtime.errors import KafkaError
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import PUSH_TELEMETRY

_PUSHED = Struct(">i?b")
_ANSWER = Struct(">ihx")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    instance_id = reader.uuid()
    subscription_id, terminating, compression_type = reader.fixed(_PUSHED)
    metrics = reader.nullable_bytes()
    reader.end_struct()
    pushed = Pushed(subscription_id, compression_type, len(metrics or b""), bool(terminating))
    try:
        context.telemetry.push(instance_id, client_of(call), pushed, context.clock.monotonic())
    except KafkaError as error:
        call.error = error.code
    return call.packed(_ANSWER.pack(call.throttle_ms, call.error))


API = ApiSpec(PUSH_TELEMETRY, "PushTelemetry", (0, 0), handle, reads="frame")
