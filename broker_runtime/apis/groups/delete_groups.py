"""DeleteGroups (42), versions 0 to 2 (KIP-229): deletes empty groups with their committed offsets.

A group with very many offsets is deleted in chunks, so that other requests are served in between. If a member joins
between two chunks, the group remains, without the offsets already deleted. Groups are read and packed by hand, because
there may be thousands.
"""

from collections.abc import Awaitable
from struct import Struct
from typing import Any

from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, emptied, kept, read_names
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.offsets.delete import delete_group
from broker_runtime.groups.state import GroupsState
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import DELETE_GROUPS

_INT16, _INT32 = Struct(">h"), Struct(">i")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace = Pace(call)
    wanted = await read_names(reader, pace)
    flexible = call.flexible
    end = b"\x00" if flexible else b""
    packed = Packed(pace, _INT32.pack(call.throttle_ms), array_length(len(wanted), flexible))
    async for group_id, code in one_by_one(emptied(wanted), lambda group_id: _delete(group_id, call, context), pace):
        call.error = call.error or code
        await packed.add(string(group_id, flexible), _INT16.pack(code), end)
    await packed.add(end)
    return packed.reply(call)


async def _delete(group_id: str, call: Call, context: BrokerContext) -> tuple[str, ErrorCode]:
    def decide(state: GroupsState, _: GroupEnvironment) -> Any:
        return delete_group(state, group_id)

    access = call.access
    if access is not None and not access.group(group_id):
        return group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED
    try:
        while await context.groups.submit(group_id, decide):
            pass
    except KafkaError as error:
        return group_id, error.code
    return group_id, ErrorCode.NONE


API = ApiSpec(DELETE_GROUPS, "DeleteGroups", (0, 2), handle, reads="frame")
