"""GetTelemetrySubscriptions (71), version 0 (KIP-714): the metrics that a client should push.

As in Apache Kafka without a receiver of metrics, ApiVersions does not list this API, so that clients do not push. A
client that still sends the request gets an answer (`client_telemetry`).
"""

from uuid import UUID, uuid4

from broker_runtime.apis.request.call import Call, ClientSoftware
from broker_runtime.apis.request.client_telemetry import COMPRESSION_TYPES, MAX_BYTES, TelemetryClient
from broker_runtime.apis.request.context import ZERO_UUID, ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import GetTelemetrySubscriptionsRequest
from broker_runtime.wire.versions import GET_TELEMETRY_SUBSCRIPTIONS

_UNKNOWN = "unknown"


def handle(request: GetTelemetrySubscriptionsRequest, call: Call, context: BrokerContext) -> Fields:
    instance_id = request.client_instance_id or ZERO_UUID
    if instance_id == ZERO_UUID:
        instance_id = uuid4()
    try:
        found, wanted = context.telemetry.subscriptions(instance_id, client_of(call), context.clock.monotonic())
    except KafkaError as error:
        return _subscriptions(error.code, None)
    answer = {
        "client_instance_id": instance_id,
        "subscription_id": found,
        "accepted_compression_types": COMPRESSION_TYPES,
        "push_interval": wanted.interval_ms,
        "telemetry_max_bytes": MAX_BYTES,
        "delta_temporality": True,
        "requested_metrics": wanted.metrics,
    }
    return {**_subscriptions(ErrorCode.NONE, None), **answer}


def _subscriptions(code: ErrorCode, instance_id: UUID | None) -> Fields:
    return {
        "error_code": code,
        "client_instance_id": instance_id,
        "subscription_id": 0,
        "push_interval": 0,
        "telemetry_max_bytes": 0,
        "delta_temporality": False,
    }


def client_of(call: Call) -> TelemetryClient:
    state = call.connection.state
    software = state if isinstance(state, ClientSoftware) else ClientSoftware(_UNKNOWN, _UNKNOWN)
    return TelemetryClient(call.client_id or "", *software, *call.connection.peer)


API = ApiSpec(GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", (0, 0), handle)
