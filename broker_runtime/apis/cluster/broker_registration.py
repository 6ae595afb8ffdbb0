"""BrokerRegistration (62), versions 0 to 4 (KIP-631). Log directories are not kept.

In version 4 a Sluicegate broker also sends what it reports about itself to clients, in tagged fields that Kafka does
not have. Features are checked against the finalized levels. A broker that migrates from ZooKeeper is refused, as by
Kafka 4.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.registration import Registration
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import UNTOLD, BrokerEndpoint
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import BrokerRegistrationRequest
from broker_runtime.wire.versions import BROKER_REGISTRATION

_EPOCH_UNKNOWN = -1
"""The previous broker epoch in versions below 3, which lack the field (KIP-966)."""


async def handle(request: BrokerRegistrationRequest, call: Call, context: ControllerContext) -> Fields:
    wanted = Registration(
        request.broker_id,
        request.cluster_id,
        request.incarnation_id,
        tuple(BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        request.rack,
        tuple((f.name, f.min_supported_version, f.max_supported_version) for f in request.features),
        request.previous_broker_epoch if call.version >= 3 else _EPOCH_UNKNOWN,
        (request.protocol_version_min, request.protocol_version_max) if call.version >= 4 else UNTOLD,
        tuple((tag.key, tag.value) for tag in request.broker_tags) if call.version >= 4 else (),
    )
    if call.version >= 1 and request.is_migrating_zk_broker:
        return {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED, "broker_epoch": -1}
    try:
        epoch = await context.controller.register(wanted)
    except KafkaError as error:
        return {"error_code": error.code, "broker_epoch": -1}
    return {"error_code": ErrorCode.NONE, "broker_epoch": epoch}


API = ApiSpec(key=BROKER_REGISTRATION, name="BrokerRegistration", versions=(0, 4), handle=handle, on_standby=True)
