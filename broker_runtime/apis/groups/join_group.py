"""JoinGroup (11), versions 0 to 9: a member's request waits until its group has the next generation.

Read and packed by hand, because thousands of members join at the same time, and the leader's answer contains all of
them. Version 0 has no rebalance timeout; its session timeout is used instead. The reason that members send (version 8,
KIP-800) is not used.

A member's protocols are read only until they exceed the configured limits.
"""

from collections.abc import Awaitable, Iterator
from struct import Struct

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed
from broker_runtime.config.keys.groups import GroupConfig
from broker_runtime.errors import KafkaError, ProtocolError
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.requests import NO_ID, JoinAnswer, JoinedMember, JoinRequest
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.records import ClassicProtocol
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, byte_string, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import JOIN_GROUP

_REBALANCE_TIMEOUT_SINCE = 1
_THROTTLE_SINCE = 2
_KNOWN_ID_SINCE = 4
_INSTANCE_SINCE = 5
_PROTOCOL_TYPE_SINCE = 7
_SKIP_SINCE = 9
_INT32 = Struct(">i")
_ERROR_AND_GENERATION = Struct(">hi")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _join(_read(reader, call, context.settings.config), call, context)


async def _join(request: JoinRequest, call: Call, context: BrokerContext) -> Reply:
    try:
        answer = await context.groups.submit_later(
            request.group_id, lambda state, environment: join(state, environment, request, CLASSIC_MEMBERS)
        )
    except KafkaError as error:
        answer = JoinAnswer(error.code, request.member_id)
    call.error = answer.error
    return (await _packed(answer, call)).reply(call)


def _read(reader: RequestReader, call: Call, config: GroupConfig) -> JoinRequest:
    version = call.version
    group_id = reader.string()
    (session_timeout_ms,) = reader.fixed(_INT32)
    (rebalance_timeout_ms,) = reader.fixed(_INT32) if version >= _REBALANCE_TIMEOUT_SINCE else (session_timeout_ms,)
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_SINCE else None
    protocol_type = reader.string()
    protocols = tuple(_read_protocols(reader, config))
    return JoinRequest(
        group_id,
        member_id,
        instance_id,
        call.client_id or "",
        f"/{call.connection.peer[0]}",
        session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type,
        protocols,
        version >= _KNOWN_ID_SINCE,
        version >= _SKIP_SINCE,
    )


def _read_protocols(reader: RequestReader, config: GroupConfig) -> Iterator[ClassicProtocol]:
    """Read the protocols up to one item or one byte more than the limits allow, so that `join` refuses them."""
    left = config.sluicegate_group_member_bytes_max
    for _ in range(min(reader.array_length(), config.sluicegate_group_member_protocols_max + 1)):
        name, metadata = reader.string(), reader.nullable_bytes()
        if metadata is None:
            raise ProtocolError("malformed", "a protocol has no metadata (null)")
        yield ClassicProtocol(name, bytes(metadata[: left + 1]))
        left -= len(name) + len(metadata)
        if left < 0:
            break
        reader.end_struct()


async def _packed(answer: JoinAnswer, call: Call) -> Packed:
    version, flexible = call.version, call.flexible
    packed = Packed(Pace(call), _INT32.pack(call.throttle_ms) if version >= _THROTTLE_SINCE else b"")
    await packed.add(_ERROR_AND_GENERATION.pack(answer.error, answer.generation))
    if version >= _PROTOCOL_TYPE_SINCE:
        await packed.add(nullable_string(answer.protocol_type, flexible), nullable_string(answer.protocol, flexible))
    else:
        await packed.add(string(answer.protocol or "", flexible))
    await packed.add(string(answer.leader or NO_ID, flexible))
    if version >= _SKIP_SINCE:
        await packed.add(b"\x01" if answer.skip_assignment else b"\x00")
    await packed.add(string(answer.member_id, flexible), array_length(len(answer.members), flexible))
    for member in answer.members:
        await packed.add(_packed_member(member, version, flexible))
    await packed.add(b"\x00" if flexible else b"")
    return packed


def _packed_member(member: JoinedMember, version: int, flexible: bool) -> bytes:
    member_id, instance_id, metadata = member
    instance = nullable_string(instance_id, flexible) if version >= _INSTANCE_SINCE else b""
    end = b"\x00" if flexible else b""
    return string(member_id, flexible) + instance + byte_string(metadata, flexible) + end


API = ApiSpec(JOIN_GROUP, "JoinGroup", (0, 9), handle, reads="frame")
