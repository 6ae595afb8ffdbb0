"""JoinGroup (11) of a broker whose groups have no members yet: an answer that all clients take for final."""

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import JoinGroupRequest
from broker_runtime.wire.versions import JOIN_GROUP

NOT_SERVED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def join_group(request: JoinGroupRequest, call: Call, context: BrokerContext) -> Fields:
    return {
        "error_code": NOT_SERVED,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "skip_assignment": False,
        "member_id": request.member_id,
        "members": [],
    }


JOIN_GROUP_API = ApiSpec(JOIN_GROUP, "JoinGroup", (0, 9), join_group)
