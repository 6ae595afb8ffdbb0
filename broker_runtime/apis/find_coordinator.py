"""FindCoordinator (10), versions 0 to 4: COORDINATOR_NOT_AVAILABLE until groups exist, which clients retry."""

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import FIND_COORDINATOR

_WHY = "consumer groups are not served yet; consume by assigned partition"


def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    nowhere = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "error_message": _WHY,
    }
    keys = getattr(request, "coordinator_keys", ())
    return {**nowhere, "coordinators": [{"key": key, **nowhere} for key in keys]}


API = ApiSpec(key=FIND_COORDINATOR, name="FindCoordinator", versions=(0, 4), handle=handle)
