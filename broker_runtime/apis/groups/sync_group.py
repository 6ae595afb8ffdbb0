"""SyncGroup (14), versions 0 to 5: the leader sends the assignment, and each member's request waits for its part.

Read and packed by hand, as JoinGroup. A leader's request with very many assignments takes many iterations of the event
loop. From version 5 on members must send the protocol that they received.
"""

from collections.abc import Awaitable
from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.groups.classic.requests import SyncAnswer, SyncRequest
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import byte_string, nullable_string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import SYNC_GROUP

_THROTTLE_SINCE = 1
_INSTANCE_SINCE = 3
_PROTOCOL_SINCE = 5
_INT32 = Struct(">i")
_INT16 = Struct(">h")
_BYTES_OF_AN_ITEM = 8_192
"""Number of bytes that take as long to copy as a short assignment takes to read."""


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    if reader.left > context.settings.config.sluicegate_group_assignments_bytes_max:
        return _refused(call)
    return _sync(reader.kept(call.connection.keep_frame), call, context)


async def _refused(call: Call) -> Reply:
    call.error = ErrorCode.INVALID_REQUEST
    return call.packed(_packed(SyncAnswer(ErrorCode.INVALID_REQUEST), call))


async def _sync(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    request = await _read(reader, call, context.settings.config.group_max_size)
    if call.version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol is None):
        answer = SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    else:
        try:
            answer = await context.groups.submit_later(
                request.group_id, lambda state, environment: sync(state, environment, request, CLASSIC_MEMBERS)
            )
        except KafkaError as error:
            answer = SyncAnswer(error.code)
    call.error = answer.error
    return call.packed(_packed(answer, call))


async def _read(reader: RequestReader, call: Call, members_max: int) -> SyncRequest:
    """Read a request with at most one assignment more than the maximum of members, so that `sync` refuses it."""
    version, group_id = call.version, reader.string()
    (generation,) = reader.fixed(_INT32)
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_SINCE else None
    protocol_type = reader.nullable_string() if version >= _PROTOCOL_SINCE else None
    protocol = reader.nullable_string() if version >= _PROTOCOL_SINCE else None
    assignments, pace = list[tuple[str, bytes]](), Pace(call)
    for _ in range(min(reader.array_length(), members_max + 1)):
        assignments.append(_read_assignment(reader))
        await pace.item(1 + len(assignments[-1][1]) // _BYTES_OF_AN_ITEM)
    return SyncRequest(group_id, member_id, generation, instance_id, protocol_type, protocol, tuple(assignments))


def _read_assignment(reader: RequestReader) -> tuple[str, bytes]:
    member_id, assignment = reader.string(), reader.nullable_bytes()
    if assignment is None:
        raise ProtocolError("malformed", "a member has no assignment (null)")
    found = member_id, bytes(assignment)
    reader.end_struct()
    return found


def _packed(answer: SyncAnswer, call: Call) -> bytes:
    version, flexible = call.version, call.flexible
    return b"".join(
        (
            _INT32.pack(call.throttle_ms) if version >= _THROTTLE_SINCE else b"",
            _INT16.pack(answer.error),
            nullable_string(answer.protocol_type, flexible) if version >= _PROTOCOL_SINCE else b"",
            nullable_string(answer.protocol, flexible) if version >= _PROTOCOL_SINCE else b"",
            byte_string(answer.assignment, flexible),
            b"\x00" if flexible else b"",
        )
    )


API = ApiSpec(SYNC_GROUP, "SyncGroup", (0, 5), handle, reads="frame")
