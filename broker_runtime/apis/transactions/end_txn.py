"""EndTxn (26), versions 0 to 5: a producer commits or aborts its transaction.

The answer comes when the decision is durable, before the markers are written. Since version 5 (KIP-890) each end gives
the producer another epoch, which the answer has.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.transactions.older_codes import code_in
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.transactions.decisions.ending import EndRequest
from broker_runtime.transactions.ids.states import TRANSACTIONS_V2
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import EndTxnRequest
from broker_runtime.wire.versions import END_TXN

_VERSION_2_SINCE = 5


async def handle(request: EndTxnRequest, call: Call, context: BrokerContext) -> Fields:
    access = call.access
    if access is not None and not access.transactional_id(request.transactional_id):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    asked = EndRequest(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        TRANSACTIONS_V2 if call.version >= _VERSION_2_SINCE else 0,
    )
    try:
        producer_id, epoch = await context.transactions.end_transaction(asked)
    except KafkaError as error:
        return _refused(code_in(error.code, call.version))
    return {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": epoch}


def _refused(code: ErrorCode) -> Fields:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


API = ApiSpec(key=END_TXN, name="EndTxn", versions=(0, 5), handle=handle)
