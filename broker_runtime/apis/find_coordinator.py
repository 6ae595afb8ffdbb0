"""FindCoordinator (10), versions 0 to 4: COORDINATOR_NOT_AVAILABLE until groups exist, which clients retry."""

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import FIND_COORDINATOR

_KEYS_MAX = 10_000
_WHY = "consumer groups are not served yet; consume by assigned partition"


_KEY_TYPES = (0, 1)
"""Groups and transactions; version 0 knows groups only."""


def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, _WHY
    key_type = getattr(request, "key_type", 0)
    if key_type not in _KEY_TYPES:
        code, message = ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}"
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": message}
    keys = dict.fromkeys(getattr(request, "coordinator_keys", ()))
    if len(keys) > _KEYS_MAX:
        raise ProtocolError("too-large", f"FindCoordinator for {len(keys)} keys; ask for at most {_KEYS_MAX} at once")
    return {**nowhere, "coordinators": [{"key": key, **nowhere} for key in keys]}


API = ApiSpec(key=FIND_COORDINATOR, name="FindCoordinator", versions=(0, 4), handle=handle)
