"""UnregisterBroker (64), version 0 (KIP-631): removes a broker's registration, whatever its state."""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.controller.registration import unregister
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import UnregisterBrokerRequest
from broker_runtime.wire.versions import UNREGISTER_BROKER


async def handle(request: UnregisterBrokerRequest, call: Call, context: ControllerContext) -> Fields:
    controller = context.controller
    try:
        await controller.submit(lambda image: unregister(request.broker_id, image, controller.sessions))
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message}
    # As in Kafka, the message is the field's default, which is not null.
    return {"error_code": ErrorCode.NONE, "error_message": ""}


API = ApiSpec(key=UNREGISTER_BROKER, name="UnregisterBroker", versions=(0, 0), handle=handle)
