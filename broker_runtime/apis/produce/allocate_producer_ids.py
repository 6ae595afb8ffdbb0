"""AllocateProducerIds (67), version 0 (KIP-730): a block of producer ids for a broker."""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.producer_ids import allocate
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AllocateProducerIdsRequest
from broker_runtime.wire.versions import ALLOCATE_PRODUCER_IDS


async def handle(request: AllocateProducerIdsRequest, call: Call, context: ControllerContext) -> Fields:
    try:
        block = await context.controller.submit(lambda image: allocate(request.broker_id, request.broker_epoch, image))
    except KafkaError as error:
        return {"error_code": error.code, "producer_id_start": -1, "producer_id_len": 0}
    return {"error_code": ErrorCode.NONE, "producer_id_start": block.start, "producer_id_len": block.size}


API = ApiSpec(key=ALLOCATE_PRODUCER_IDS, name="AllocateProducerIds", versions=(0, 0), handle=handle, on_standby=True)
