"""LeaveGroup (13), versions 0 to 5: one member, or several from version 3 on (KIP-345). The reason is not used.

If very many members leave, they are split into chunks that are handled like separate requests. Read and packed by hand.
"""

from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from itertools import chain
from struct import Struct

from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, chunks, kept
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.leaving import CHUNK, leave
from broker_runtime.groups.classic.requests import LeaveRequest, LeavingMember
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.slicing.steps import let_go
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import LEAVE_GROUP

_THROTTLE_SINCE = 1
_SEVERAL_SINCE = 3
_REASON_SINCE = 5
_INT16, _INT32 = Struct(">h"), Struct(">i")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    group_id, members = reader.string(), list[LeavingMember]()
    if call.version < _SEVERAL_SINCE:
        members.append(LeavingMember(reader.string()))
    else:
        await _read_members(reader, call, members)
    reader.end_struct()
    try:
        # A request without members is also submitted, because its group id may be invalid.
        slowly = one_by_one(chunks(deque(members), CHUNK), lambda some: _leave(group_id, some, context), Pace(call))
        errors = [told async for told in slowly]
    except KafkaError as error:
        await call.completion.slices.finish(let_go(members))
        return await _answer(error.code, (), (), call)
    if call.version < _SEVERAL_SINCE:
        return await _answer(errors[0][0], (), (), call)
    reply = await _answer(ErrorCode.NONE, members, chain.from_iterable(errors), call)
    await call.completion.slices.finish(let_go(members))
    return reply


async def _read_members(reader: RequestReader, call: Call, members: list[LeavingMember]) -> None:
    pace = Pace(call)
    for _ in range(reader.array_length()):
        members.append(LeavingMember(reader.string(), reader.nullable_string()))
        if call.version >= _REASON_SINCE:
            reader.nullable_string()
        reader.end_struct()
        await pace.item(2)


async def _leave(group_id: str, members: Sequence[LeavingMember], context: BrokerContext) -> Sequence[ErrorCode]:
    request = LeaveRequest(group_id, tuple(members))
    answer = await context.groups.submit(
        group_id, lambda state, environment: leave(state, environment, request, CLASSIC_MEMBERS)
    )
    return answer.errors


async def _answer(code: ErrorCode, members: Sequence[LeavingMember], errors: Iterable[ErrorCode], call: Call) -> Reply:
    flexible, call.error = call.flexible, code
    end = b"\x00" if flexible else b""
    throttle = _INT32.pack(call.throttle_ms) if call.version >= _THROTTLE_SINCE else b""
    packed = Packed(Pace(call), throttle, _INT16.pack(code))
    if call.version >= _SEVERAL_SINCE:
        await packed.add(array_length(len(members), flexible))
        for member, error in zip(members, errors, strict=True):
            call.error = call.error or error
            named = string(member.member_id, flexible) + nullable_string(member.group_instance_id, flexible)
            await packed.add(named, _INT16.pack(error), end)
    await packed.add(end)
    return packed.reply(call)


API = ApiSpec(LEAVE_GROUP, "LeaveGroup", (0, 5), handle, reads="frame")
