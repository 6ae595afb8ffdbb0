"""BrokerHeartbeat (63), versions 0 to 1 (KIP-631)."""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.registration import Heartbeat
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import BrokerHeartbeatRequest
from broker_runtime.wire.versions import BROKER_HEARTBEAT


async def handle(request: BrokerHeartbeatRequest, call: Call, context: ControllerContext) -> Fields:
    beat = Heartbeat(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        request.want_fence,
        request.want_shut_down,
    )
    try:
        answer = await context.controller.heartbeat(beat)
    except KafkaError as error:
        return {"error_code": error.code, "is_caught_up": False, "is_fenced": True, "should_shut_down": False}
    return {
        "error_code": ErrorCode.NONE,
        "is_caught_up": answer.is_caught_up,
        "is_fenced": answer.is_fenced,
        "should_shut_down": answer.should_shut_down,
    }


API = ApiSpec(key=BROKER_HEARTBEAT, name="BrokerHeartbeat", versions=(0, 1), handle=handle, on_standby=True)
