"""BrokerRegistration (62), versions 0 to 4 (KIP-631). Features, log directories and ZooKeeper migration are ignored."""

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.controller.records import BrokerEndpoint
from broker_runtime.controller.registration import Registration
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import BROKER_REGISTRATION


async def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    controller = node.controller
    assert controller is not None
    wanted = Registration(
        request.broker_id,
        request.cluster_id,
        request.incarnation_id,
        tuple(BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        request.rack,
    )
    try:
        epoch = await controller.register(wanted)
    except KafkaError as error:
        return {"error_code": error.code, "broker_epoch": -1}
    return {"error_code": ErrorCode.NONE, "broker_epoch": epoch}


API = ApiSpec(key=BROKER_REGISTRATION, name="BrokerRegistration", versions=(0, 4), handle=handle, runs_on="controller")
