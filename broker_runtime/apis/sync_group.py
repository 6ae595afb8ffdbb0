"""SyncGroup (14), versions 0 to 5: the leader brings the assignment, and each member's request waits for its part.

Read and packed by hand, as JoinGroup. From version 5 on members have to say the protocol that they have been told.
"""

from collections.abc import Awaitable
from struct import Struct

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.groups.classic.requests import SyncAnswer, SyncRequest
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import SYNC_GROUP
from broker_runtime.wire.writer import byte_string, nullable_string

_THROTTLE_SINCE = 1
_INSTANCE_SINCE = 3
_PROTOCOL_SINCE = 5
_INT32 = Struct(">i")
_INT16 = Struct(">h")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _sync(_read(reader, call.version), call, context)


async def _sync(request: SyncRequest, call: Call, context: BrokerContext) -> Reply:
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


def _read(reader: RequestReader, version: int) -> SyncRequest:
    group_id = reader.string()
    (generation,) = reader.fixed(_INT32)
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_SINCE else None
    protocol_type = reader.nullable_string() if version >= _PROTOCOL_SINCE else None
    protocol = reader.nullable_string() if version >= _PROTOCOL_SINCE else None
    assignments = tuple([_read_assignment(reader) for _ in range(reader.array_length())])
    reader.end_struct()
    return SyncRequest(group_id, member_id, generation, instance_id, protocol_type, protocol, assignments)


def _read_assignment(reader: RequestReader) -> tuple[str, bytes]:
    member_id, assignment = reader.string(), reader.nullable_bytes()
    if assignment is None:
        raise ProtocolError("malformed", "an assignment is null")
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
