"""DescribeGroups (15), versions 0 to 6: groups of the classic protocol and of the push protocol, with their members.

- Before version 6 a group that does not exist is Dead, without an error (KIP-1043). A group of KIP-848 counts as one
  that does not exist.
- Members have metadata only while the group is Stable: the metadata for the chosen protocol. During a rebalance they
  have their previous assignment.
- If a request asks for authorized operations and the broker has no authorizer, the answer has all.
- Consumers of the push protocol have the last assignment sent to them, while they read it.
- A group that is named several times is described once.

Requests and answers are read and packed by hand, over many iterations of the event loop, as in ConsumerGroupDescribe.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED, ON_GROUP
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, emptied, kept, read_names
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.consumer.embedded import write_assignment
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.log_ends import Partition
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.records import ClassicProtocol
from broker_runtime.groups.state import GroupsState
from broker_runtime.security.acls.model import AclResource
from broker_runtime.slicing.steps import Steps, in_order
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, byte_string, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import DESCRIBE_GROUPS

_THROTTLE_SINCE = 1
_OPERATIONS_SINCE = 3
_INSTANCE_SINCE = 4
_NOT_FOUND_SINCE = 6
_DEAD = ClassicState.DEAD.value
_PUSH = "push"
"""Protocol name of a push group, which tools show as its assignor."""
_ASSIGNMENT_VERSION = 0
_BOOLEAN, _INT16, _INT32 = Struct(">?"), Struct(">h"), Struct(">i")


class _Group(NamedTuple):
    """A snapshot of a group after the last decision.

    Each member has its metadata and assignment of that time, which later decisions replace rather than modify.
    """

    state: str
    protocol_type: str = ""
    protocol: str | None = None
    """The group's protocol; None if metadata is not shown."""
    members: Sequence["_Pack"] = ()


_Pack = Callable[[str, Call], Sequence[bytes] | Steps[Sequence[bytes]]]
"""Packs one member of a group. The first argument is the protocol whose metadata is shown."""


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace = Pace(call)
    wanted = await read_names(reader, pace)
    asks = call.version >= _OPERATIONS_SINCE and reader.fixed(_BOOLEAN)[0]
    operations = ON_GROUP if asks else NOT_ASKED
    packed = Packed(pace, _INT32.pack(call.throttle_ms) if call.version >= _THROTTLE_SINCE else b"")
    await packed.add(array_length(len(wanted), call.flexible))
    describe = partial(_described, operations, call, context, pace)
    async for group in one_by_one(emptied(wanted), describe, pace):
        await packed.add_all(group)
    await packed.add(b"\x00" if call.flexible else b"")
    return packed.reply(call)


async def _described(operations: int, call: Call, context: BrokerContext, pace: Pace, group_id: str) -> Packed:
    try:
        access = call.access
        if access is not None:
            access.require_group(group_id)
            if operations != NOT_ASKED:
                operations = access.operations(AclResource.GROUP, group_id, ON_GROUP)
        group = await context.groups.submit(group_id, lambda state, _: ((), _found(state, group_id)))
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return await _packed(group_id, _Group(""), error, NOT_ASKED, call, pace)
        if call.version >= _NOT_FOUND_SINCE:
            return await _packed(group_id, _Group(_DEAD), error, NOT_ASKED, call, pace)
        return await _packed(group_id, _Group(_DEAD), None, operations, call, pace)
    return await _packed(group_id, group, None, operations, call, pace)


def _found(state: GroupsState, group_id: str) -> _Group:
    """Return a snapshot of the group. Raises KafkaError (GROUP_ID_NOT_FOUND)."""
    group = state.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if isinstance(group, PushGroup):
        consumers = [partial(_packed_consumer, each, each.told) for each in group.members.values()]
        return _Group(group.state_name, group.protocol_type, _PUSH, consumers)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    protocol = (group.protocol or "") if group.state is ClassicState.STABLE else None
    members = [
        partial(_packed_member, member, member.protocols, member.assignment) for member in group.members.by_id.values()
    ]
    return _Group(group.state_name, group.protocol_type, protocol, members)


async def _packed(
    group_id: str, group: _Group, error: KafkaError | None, operations: int, call: Call, pace: Pace
) -> Packed:
    version, flexible = call.version, call.flexible
    packed = Packed(pace, _INT16.pack(ErrorCode.NONE if error is None else error.code))
    if error is not None:
        call.error = error.code
    if version >= _NOT_FOUND_SINCE:
        await packed.add(nullable_string(None if error is None else error.message, flexible))
    texts = (group_id, group.state, group.protocol_type, group.protocol or "")
    await packed.add(*[string(text, flexible) for text in texts], array_length(len(group.members), flexible))
    for pack in group.members:
        parts = pack(group.protocol or "", call)
        await packed.add(*(parts if isinstance(parts, Sequence) else await call.completion.slices.finish(parts)))
    if version >= _OPERATIONS_SINCE:
        await packed.add(_INT32.pack(operations))
    await packed.add(b"\x00" if flexible else b"")
    return packed


def _packed_member(
    member: Member, protocols: Sequence[ClassicProtocol], assignment: bytes, protocol: str, call: Call
) -> Sequence[bytes]:
    metadata = next((content for name, content in protocols if name == protocol), b"")
    names = (member.member_id, member.client_id, member.client_host)
    return _packed_as(names, metadata, assignment, call, member.group_instance_id)


def _packed_consumer(consumer: PushMember, told: Collection[Partition], _: str, call: Call) -> Steps[Sequence[bytes]]:
    """Pack a push consumer. It has no client id, so its consumer id is used for both."""
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, parts in groupby((yield from in_order(list(told))), key=itemgetter(0)):
        partitions[topic] = tuple(number for _, number in parts)
        yield
    names = (consumer.consumer_id, consumer.consumer_id, consumer.value.client_host)
    return _packed_as(names, b"", write_assignment(_ASSIGNMENT_VERSION, partitions), call)


def _packed_as(
    names: tuple[str, str, str], metadata: bytes, assignment: bytes, call: Call, instance_id: str | None = None
) -> Sequence[bytes]:
    """Pack a member. `names` are its member id, client id and host."""
    flexible = call.flexible
    member_id, client_id, client_host = names
    parts = [string(member_id, flexible)]
    if call.version >= _INSTANCE_SINCE:
        parts.append(nullable_string(instance_id, flexible))
    parts += (string(client_id, flexible), string(client_host, flexible))
    parts += (byte_string(metadata, flexible), byte_string(assignment, flexible), b"\x00" if flexible else b"")
    return parts


API = ApiSpec(DESCRIBE_GROUPS, "DescribeGroups", (0, 6), handle, reads="frame")
