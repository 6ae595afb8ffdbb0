"""AddOffsetsToTxn (25), versions 0 to 4: the group whose offsets a producer is about to commit in its transaction.

It adds the group's partition of `__consumer_offsets` to the transaction.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.transactions.older_codes import code_in
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AddOffsetsToTxnRequest
from broker_runtime.wire.versions import ADD_OFFSETS_TO_TXN


async def handle(request: AddOffsetsToTxnRequest, call: Call, context: BrokerContext) -> Fields:
    try:
        await _add(request, call, context)
    except KafkaError as error:
        return {"error_code": code_in(error.code, call.version)}
    return {"error_code": ErrorCode.NONE}


async def _add(request: AddOffsetsToTxnRequest, call: Call, context: BrokerContext) -> None:
    access = call.access
    if access is not None:
        if not access.transactional_id(request.transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        access.require_group(request.group_id)
    partitions = context.image.partitions_of(GROUPS_TOPIC)
    if not partitions:
        # A client asks for the group's coordinator before it commits offsets, which creates the topic.
        context.auto_topic_creation.ask_for([GROUPS_TOPIC])
        why = f"topic {GROUPS_TOPIC} is being created; try again"
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    added = (GROUPS_TOPIC, partition_of(request.group_id, len(partitions)))
    producer = request.transactional_id, request.producer_id, request.producer_epoch
    await context.transactions.add_partitions(*producer, (added,))


API = ApiSpec(key=ADD_OFFSETS_TO_TXN, name="AddOffsetsToTxn", versions=(0, 4), handle=handle)
