"""DescribeGroups (15), versions 0 to 6: groups of the classic protocol, with their members.

- Before version 6 a group that is not there is Dead, without an error (KIP-1043); one of KIP-848 is not there.
- Metadata of members is shown while the group is Stable: it is that of the protocol that was chosen. While it
  rebalances, their assignment is the one that they had before.
- Authorized operations are not implemented: always the "not asked" value.
"""

import asyncio
from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.apis.packed_topics import OPERATIONS_NOT_ASKED
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.state import GroupsState
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import DESCRIBE_GROUPS

_NOT_FOUND_SINCE = 6
_DEAD = ClassicState.DEAD.value


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of whichever version."""
    return {"groups": await asyncio.gather(*(_described(group_id, call, context) for group_id in request.groups))}


async def _described(group_id: str, call: Call, context: BrokerContext) -> Fields:
    try:
        return await context.groups.submit(group_id, lambda state, _: ((), _found(state, group_id)))
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return _without_members(group_id, "", error.code, error.message)
        told = call.version >= _NOT_FOUND_SINCE
        return _without_members(group_id, _DEAD, error.code if told else ErrorCode.NONE, error.message)


def _found(state: GroupsState, group_id: str) -> Fields:
    """Raises KafkaError (GROUP_ID_NOT_FOUND)."""
    group = state.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    protocol = (group.protocol or "") if group.state is ClassicState.STABLE else None
    members = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": b"" if protocol is None else member.metadata(protocol),
            "member_assignment": member.assignment,
        }
        for member in group.members.by_id.values()
    ]
    return _without_members(group_id, group.state_name, ErrorCode.NONE, None) | {
        "protocol_type": group.protocol_type,
        "protocol_data": protocol or "",
        "members": members,
    }


def _without_members(group_id: str, state: str, code: ErrorCode, why: str | None) -> dict[str, object]:
    return {
        "error_code": code,
        "error_message": None if code == ErrorCode.NONE else why,
        "group_id": group_id,
        "group_state": state,
        "protocol_type": "",
        "protocol_data": "",
        "members": (),
        "authorized_operations": OPERATIONS_NOT_ASKED,
    }


API = ApiSpec(DESCRIBE_GROUPS, "DescribeGroups", (0, 6), handle)
