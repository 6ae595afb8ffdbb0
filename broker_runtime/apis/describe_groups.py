"""DescribeGroups (15), versions 0 to 6: groups of the classic protocol, with their members.

- Before version 6 a group that is not there is Dead, without an error (KIP-1043); one of KIP-848 is not there.
- Metadata of members is shown while the group is Stable: it is that of the protocol that was chosen. While it
  rebalances, their assignment is the one that they had before.
- Authorized operations are not implemented: always the "not asked" value.
- A group that is named several times is described once.

Read and packed by hand and over many turns, as ConsumerGroupDescribe.
"""

from collections.abc import Awaitable, Sequence
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.apis.groups_in_turn import in_turn
from broker_runtime.apis.many_items import Pace, Packed, kept, read_names
from broker_runtime.apis.packed_topics import OPERATIONS_NOT_ASKED
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.records import ClassicProtocol
from broker_runtime.groups.state import GroupsState
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import DESCRIBE_GROUPS
from broker_runtime.wire.writer import array_length, byte_string, nullable_string, string

_THROTTLE_SINCE = 1
_OPERATIONS_SINCE = 3
_INSTANCE_SINCE = 4
_NOT_FOUND_SINCE = 6
_DEAD = ClassicState.DEAD.value
_INT16, _INT32 = Struct(">h"), Struct(">i")


class _Group(NamedTuple):
    """As it was decided last: with each member what it brought and has, which others take the place of later."""

    state: str
    protocol_type: str = ""
    protocol: str | None = None
    """None where metadata is not shown."""
    members: Sequence[tuple[Member, Sequence[ClassicProtocol], bytes]] = ()


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    wanted = await read_names(reader, Pace())
    packed = Packed(_INT32.pack(call.throttle_ms) if call.version >= _THROTTLE_SINCE else b"")
    await packed.add(array_length(len(wanted), call.flexible))
    async for group in in_turn(wanted, lambda group_id: _described(group_id, call, context)):
        await packed.add_all(group)
    await packed.add(b"\x00" if call.flexible else b"")
    return packed.reply(call)


async def _described(group_id: str, call: Call, context: BrokerContext) -> Packed:
    try:
        group = await context.groups.submit(group_id, lambda state, _: ((), _found(state, group_id)))
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return await _packed(group_id, _Group(""), error, call)
        told = error if call.version >= _NOT_FOUND_SINCE else None
        return await _packed(group_id, _Group(_DEAD), told, call)
    return await _packed(group_id, group, None, call)


def _found(state: GroupsState, group_id: str) -> _Group:
    """Raises KafkaError (GROUP_ID_NOT_FOUND)."""
    group = state.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    protocol = (group.protocol or "") if group.state is ClassicState.STABLE else None
    members = [(member, member.protocols, member.assignment) for member in group.members.by_id.values()]
    return _Group(group.state_name, group.protocol_type, protocol, members)


async def _packed(group_id: str, group: _Group, error: KafkaError | None, call: Call) -> Packed:
    version, flexible = call.version, call.flexible
    packed = Packed(_INT16.pack(ErrorCode.NONE if error is None else error.code))
    if error is not None:
        call.error = error.code
    if version >= _NOT_FOUND_SINCE:
        await packed.add(nullable_string(None if error is None else error.message, flexible))
    texts = (group_id, group.state, group.protocol_type, group.protocol or "")
    await packed.add(*[string(text, flexible) for text in texts], array_length(len(group.members), flexible))
    for member, protocols, assignment in group.members:
        metadata = next((said for name, said in protocols if name == group.protocol), b"")
        await packed.add(*_packed_member(member, metadata, assignment, call))
    if version >= _OPERATIONS_SINCE:
        await packed.add(_INT32.pack(OPERATIONS_NOT_ASKED))
    await packed.add(b"\x00" if flexible else b"")
    return packed


def _packed_member(member: Member, metadata: bytes, assignment: bytes, call: Call) -> Sequence[bytes]:
    flexible = call.flexible
    parts = [string(member.member_id, flexible)]
    if call.version >= _INSTANCE_SINCE:
        parts.append(nullable_string(member.group_instance_id, flexible))
    parts += (string(member.client_id, flexible), string(member.client_host, flexible))
    parts += (byte_string(metadata, flexible), byte_string(assignment, flexible), b"\x00" if flexible else b"")
    return parts


API = ApiSpec(DESCRIBE_GROUPS, "DescribeGroups", (0, 6), handle, reads="frame")
