"""ConsumerGroupDescribe (69), versions 0 and 1 (KIP-848; version 1 has the protocol of each member, KIP-1099).

Requests and answers are read and packed by hand, over many iterations of the event loop, because a group may have
thousands of members. A group that is named several times is described once. Deleted topics are omitted. If a request
asks for authorized operations and the broker has no authorizer, the answer has all.
"""

from collections.abc import Awaitable, Iterator
from functools import partial
from struct import Struct
from uuid import UUID

from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED, ON_GROUP
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, emptied, kept, read_names
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.describe import DescribedGroup, describe, held
from broker_runtime.groups.consumer.state.member import NOTHING, ConsumerMember
from broker_runtime.groups.records import Assignment
from broker_runtime.metadata.areas.topics import Topics
from broker_runtime.security.acls.model import AclResource
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import CONSUMER_GROUP_DESCRIBE

_CLASSIC, _CONSUMER = b"\x00", b"\x01"
_MEMBER_TYPE_SINCE = 1
_END = b"\x00"
"""No tagged fields: both versions are flexible."""
_TOPICS_OF_A_PART = 64
_BOOLEAN, _INT16, _INT32, _EPOCHS = Struct(">?"), Struct(">h"), Struct(">i"), Struct(">ii")


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace = Pace(call)
    wanted = await read_names(reader, pace)
    operations = ON_GROUP if reader.fixed(_BOOLEAN)[0] else NOT_ASKED
    packed = Packed(pace, _INT32.pack(call.throttle_ms), array_length(len(wanted), flexible=True))
    describe_one = partial(_described, operations, call, context, pace)
    async for group in one_by_one(emptied(wanted), describe_one, pace):
        await packed.add_all(group)
    await packed.add(_END)
    return packed.reply(call)


async def _described(operations: int, call: Call, context: BrokerContext, pace: Pace, group_id: str) -> Packed:
    code, message = ErrorCode.NONE, None
    group = DescribedGroup(group_id, "", 0, 0, "", (), {})
    try:
        access = call.access
        if access is not None:
            if not access.group(group_id):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if operations != NOT_ASKED:
                operations = access.operations(AclResource.GROUP, group_id, ON_GROUP)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        found = await context.groups.submit(
            group_id, lambda state, environment: ((), describe(state, environment, group_id))
        )
        if access is not None:
            await _check_topics(found, context.image.topics, access, pace)
        group = found
    except KafkaError as error:
        call.error = code = error.code
        message = error.message
    packed = Packed(pace, _INT16.pack(code), nullable_string(message, flexible=True), string(group_id, flexible=True))
    await packed.add(string(group.state, flexible=True), _EPOCHS.pack(group.epoch, group.assignment_epoch))
    await packed.add(string(group.assignor, flexible=True), array_length(len(group.members), flexible=True))
    for member in group.members:
        target = group.target.get(member.member_id, NOTHING)
        for part in _member(member, target, call.version, context.image.topics):
            await packed.add(part)
    await packed.add(_INT32.pack(NOT_ASKED if code else operations), _END)
    return packed


async def _check_topics(group: DescribedGroup, topics: Topics, access: Access, pace: Pace) -> None:
    """Raise KafkaError if a member has partitions of a topic that the client may not describe."""
    checked: set[UUID] = set()
    for member in group.members:
        for assignment in (held(member), group.target.get(member.member_id, NOTHING)):
            for topic_id in assignment:
                await pace.item()
                if topic_id in checked:
                    continue
                checked.add(topic_id)
                topic = topics.by_id(topic_id)
                if topic is not None and not access.topic(topic.name):
                    raise KafkaError(
                        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                        "The group has described topic(s) that the client is not authorized to describe.",
                    )


def _member(member: ConsumerMember, target: Assignment, version: int, topics: Topics) -> Iterator[bytes]:
    """Yield the packed member in small parts, so that the caller can pause between them."""
    metadata = member.metadata
    yield string(member.member_id, flexible=True) + nullable_string(metadata.instance_id, flexible=True)
    yield nullable_string(metadata.rack_id, flexible=True) + _INT32.pack(member.epoch)
    yield string(metadata.client_id, flexible=True) + string(metadata.client_host, flexible=True)
    yield array_length(len(metadata.subscribed_topic_names), flexible=True)
    for name in metadata.subscribed_topic_names:
        yield string(name, flexible=True)
    yield string(metadata.subscribed_topic_regex or "", flexible=True)
    yield from _assignment(held(member), topics)
    yield from _assignment(target, topics)
    if version >= _MEMBER_TYPE_SINCE:
        yield _CLASSIC if member.speaks_classic else _CONSUMER
    yield _END


def _assignment(assignment: Assignment, topics: Topics) -> Iterator[bytes]:
    shown: list[tuple[UUID, str]] = []
    for number, topic_id in enumerate(assignment, 1):
        if (topic := topics.by_id(topic_id)) is not None:
            shown.append((topic_id, topic.name))
        if number % _TOPICS_OF_A_PART == 0:
            # The caller may give the event loop to others.
            yield b""
    yield array_length(len(shown), flexible=True)
    for topic_id, name in shown:
        partitions = assignment[topic_id]
        count = array_length(len(partitions), flexible=True)
        indexes = Struct(f">{len(partitions)}i").pack(*partitions)
        yield topic_id.bytes + string(name, flexible=True) + count + indexes + _END
    yield _END


API = ApiSpec(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", (0, 1), handle, reads="frame")
