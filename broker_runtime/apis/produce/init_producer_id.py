"""InitProducerId (22), versions 0 to 4, for idempotent producers: always a new id with epoch 0, as in Kafka.

Ids come in blocks from the controller (`producer_ids`), so that most requests need no round trip to it.
A transactional id is refused (`refused_transactions`).
"""

from broker_runtime.apis.request import refused_transactions
from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.security.acls.model import AclOperation
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import InitProducerIdRequest
from broker_runtime.wire.versions import INIT_PRODUCER_ID


async def handle(request: InitProducerIdRequest, call: Call, context: BrokerContext) -> Fields:
    # Since version 3 a producer may send its current id and epoch, but not only one of them.
    if call.version >= 3 and (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    access = call.access
    if request.transactional_id is not None:
        if access is not None and not access.transactional_id(request.transactional_id):
            return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        context.refused_transactions.note(call, request.transactional_id)
        return _refused(refused_transactions.CODE)
    if access is not None and not await _may_write(access, call) and not access.cluster():
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        producer_id = await context.producer_ids.next_id()
    except KafkaError:
        # The controller's failure is temporary, and every producer retries after this code.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}


async def _may_write(access: Access, call: Call) -> bool:
    """Return whether the client may write any topic. The search of all ACLs may take long."""
    return await call.completion.slices.finish(access.any_topic(AclOperation.WRITE))


def _refused(code: ErrorCode) -> Fields:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


API = ApiSpec(key=INIT_PRODUCER_ID, name="InitProducerId", versions=(0, 4), handle=handle)
