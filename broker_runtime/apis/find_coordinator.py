"""FindCoordinator (10), versions 0 to 4. There are no groups yet: whoever is asked is the coordinator of every group,
and answers as `without_groups` says. Transactions have no coordinator, which clients retry.
"""

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import FindCoordinatorRequest
from broker_runtime.wire.versions import FIND_COORDINATOR

_KEYS_MAX = 10_000
_GROUP, _TRANSACTION = 0, 1
_SEVERAL_SINCE = 4


def handle(request: FindCoordinatorRequest, call: Call, context: BrokerContext) -> Fields:
    answer = _coordinator(request.key_type if call.version >= 1 else _GROUP, call, context)
    keys = dict.fromkeys(request.coordinator_keys if call.version >= _SEVERAL_SINCE else ())
    if len(keys) > _KEYS_MAX:
        raise ProtocolError("too-large", f"FindCoordinator for {len(keys)} keys; ask for at most {_KEYS_MAX} at once")
    return {**answer, "coordinators": [{"key": key, **answer} for key in keys]}


def _coordinator(key_type: int, call: Call, context: BrokerContext) -> Fields:
    if key_type not in (_GROUP, _TRANSACTION):
        return _nowhere(ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}")
    if key_type == _TRANSACTION:
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, "transactions are not served yet")
    me = context.image.brokers.get(context.settings.node_id)
    endpoint = None if me is None else me.endpoint(call.listener)
    if me is None or endpoint is None:
        return _nowhere(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker is not in the metadata; ask again")
    return {
        "node_id": me.id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": ErrorCode.NONE,
        "error_message": None,
    }


def _nowhere(code: ErrorCode, why: str) -> Fields:
    return {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": why}


API = ApiSpec(key=FIND_COORDINATOR, name="FindCoordinator", versions=(0, 4), handle=handle)
