"""LeaveGroup (13), versions 0 to 5: one member, or several from version 3 on (KIP-345). The reason is not used."""

from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.leaving import leave
from broker_runtime.groups.classic.requests import LeaveRequest, LeavingMember
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import LEAVE_GROUP

_SEVERAL_SINCE = 3


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of whichever version."""
    several = call.version >= _SEVERAL_SINCE
    if several:
        members = tuple(LeavingMember(each.member_id, each.group_instance_id) for each in request.members)
    else:
        members = (LeavingMember(request.member_id),)
    asked = LeaveRequest(request.group_id, members)
    try:
        left = await context.groups.submit(
            asked.group_id, lambda state, environment: leave(state, environment, asked, CLASSIC_MEMBERS)
        )
    except KafkaError as error:
        return {"error_code": error.code, "members": []}
    if not several:
        return {"error_code": left.errors[0], "members": []}
    return {
        "error_code": ErrorCode.NONE,
        "members": [
            {"member_id": each.member_id, "group_instance_id": each.group_instance_id, "error_code": error}
            for each, error in zip(members, left.errors, strict=True)
        ],
    }


API = ApiSpec(LEAVE_GROUP, "LeaveGroup", (0, 5), handle)
