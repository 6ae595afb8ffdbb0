"""InitProducerId (22), versions 0 to 5: a producer id and an epoch.

An idempotent producer always gets a new id with epoch 0, as in Kafka. Ids come in blocks from the controller
(`producer_ids`), so that most requests need no round trip to it. The coordinator of a transactional id decides for a
transactional producer.
"""

from datetime import timedelta

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.security.acls.model import AclOperation
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import InitProducerIdRequest
from broker_runtime.wire.versions import INIT_PRODUCER_ID

_MILLISECOND = timedelta(milliseconds=1)
_FENCED_SINCE = 4
_CURRENT_SINCE = 3


async def handle(request: InitProducerIdRequest, call: Call, context: BrokerContext) -> Fields:
    # Since version 3 a producer may send its current id and epoch, but not only one of them.
    if call.version >= _CURRENT_SINCE and (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    access = call.access
    if request.transactional_id is not None:
        if access is not None and not access.transactional_id(request.transactional_id):
            return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return await _of_transactional_id(request, request.transactional_id, call, context)
    if access is not None and not await _may_write(access, call) and not access.cluster():
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        producer_id = await context.producer_ids.next_id()
    except KafkaError:
        # The controller's failure is temporary, and every producer retries after this code.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": 0}


async def _of_transactional_id(
    request: InitProducerIdRequest, transactional_id: str, call: Call, context: BrokerContext
) -> Fields:
    has_current = call.version >= _CURRENT_SINCE
    current = (request.producer_id, request.producer_epoch) if has_current else (-1, -1)
    timeout_ms = request.transaction_timeout // _MILLISECOND
    try:
        producer_id, epoch, code = await context.transactions.init_producer(transactional_id, timeout_ms, *current)
    except KafkaError as error:
        producer_id, epoch, code = -1, -1, error.code
    if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return {"error_code": code, "producer_id": producer_id, "producer_epoch": epoch}


async def _may_write(access: Access, call: Call) -> bool:
    """Return whether the client may write any topic. The search of all ACLs may take long."""
    return await call.completion.slices.finish(access.any_topic(AclOperation.WRITE))


def _refused(code: ErrorCode) -> Fields:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


API = ApiSpec(key=INIT_PRODUCER_ID, name="InitProducerId", versions=(0, 5), handle=handle)
