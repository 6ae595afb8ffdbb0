"""OffsetFetch (9), versions 1 to 10 (several groups from version 8, members' epochs from 9, topic ids from 10).

Each group succeeds or fails on its own, and is answered once. If a request names it again, the repetition is refused
(INVALID_REQUEST): otherwise a small request could load all of a group's offsets thousands of times. Version 1 has no
field for a group's error, so each partition contains it. From version 7 on, a client may require stable offsets: a
partition whose offset an open transaction may replace gets UNSTABLE_OFFSET_COMMIT (KIP-447).

Read and packed by hand. Many offsets take many iterations of the event loop.
"""

from array import array
from collections import deque
from collections.abc import Awaitable, Iterator, Sequence
from itertools import chain
from struct import Struct, unpack
from typing import NamedTuple
from uuid import UUID

from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, chunks, emptied, kept
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.delete import CHUNK
from broker_runtime.groups.offsets.fetch import FetchedOffset, fetch, fetch_all, unstable
from broker_runtime.groups.records import OffsetCommitValue
from broker_runtime.metadata.areas.topics import Topics
from broker_runtime.slicing.steps import drain, let_go
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, nullable_string, string
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import OFFSET_FETCH

_GROUP_ERROR_SINCE = 2
_THROTTLE_SINCE = 3
_EPOCH_SINCE = 5
_STABLE_SINCE = 7
_SEVERAL_SINCE = 8
_MEMBER_SINCE = 9
_BY_ID_SINCE = 10
_BOOLEAN, _INT16, _INT32 = Struct(">?"), Struct(">h"), Struct(">i")
_WITH_EPOCH, _WITHOUT_EPOCH = Struct(">iqi"), Struct(">iq")


_AllOffsets = Sequence[tuple[tuple[str, int], OffsetCommitValue | None]]
"""All offsets of a group; None for an unstable one."""


class _Topic(NamedTuple):
    """A topic of a request. `named` is its name or id as encoded in the request; `name` is None if it has a problem."""

    named: bytes
    name: str | None
    indexes: "array[int]"
    problem: ErrorCode = ErrorCode.NONE
    """The error of all its partitions: the id is unknown, or the client may not describe the topic."""


class _Group(NamedTuple):
    """A group of a request. `topics` is None if all offsets are requested.

    `ids` has the ids of the request's topics that exist, by name.
    """

    group_id: str
    member: Committer
    topics: list[_Topic] | None
    ids: dict[str, UUID]


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace, topics, version = Pace(call), context.image.topics, call.version
    packed = Packed(pace, _INT32.pack(call.throttle_ms) if version >= _THROTTLE_SINCE else b"")
    if version < _SEVERAL_SINCE:
        group = await _read_group(reader, topics, {}, call, pace)
        stable = version >= _STABLE_SINCE and bool(reader.fixed(_BOOLEAN)[0])
        await packed.add_all(await _answered(group, stable, call, context, pace))
        return packed.reply(call)
    asked, groups, ids = set[str](), deque[tuple[_Group, bool]](), dict[str, UUID]()
    for _ in range(reader.array_length()):
        group = await _read_group(reader, topics, ids, call, pace)
        groups.append((group, group.group_id in asked))
        asked.add(group.group_id)
    stable = bool(reader.fixed(_BOOLEAN)[0])
    await packed.add(array_length(len(groups), call.flexible))
    slowly = one_by_one(emptied(groups), lambda each: _one_of_several(*each, stable, call, context, pace), pace)
    async for answer in slowly:
        await packed.add_all(answer)
    await packed.add(b"\x00")
    await call.completion.slices.finish(drain(asked))
    return packed.reply(call)


async def _one_of_several(
    group: _Group, again: bool, stable: bool, call: Call, context: BrokerContext, pace: Pace
) -> Packed:
    packed = Packed(pace, string(group.group_id, call.flexible))
    if again:
        call.error = ErrorCode.INVALID_REQUEST
        await packed.add(array_length(0, call.flexible), _INT16.pack(call.error), b"\x00")
    else:
        await packed.add_all(await _answered(group, stable, call, context, pace))
    return packed


async def _read_group(reader: RequestReader, topics: Topics, ids: dict[str, UUID], call: Call, pace: Pace) -> _Group:
    """Read a group. Before version 8 a request has only one group."""
    version = call.version
    group_id, member = reader.string(), Committer(api_version=version)
    if version >= _MEMBER_SINCE:
        member_id, (epoch,) = reader.nullable_string(), reader.fixed(_INT32)
        member = Committer(member_id or "", epoch, api_version=version)
    count = reader.nullable_array_length() if version >= _GROUP_ERROR_SINCE else reader.array_length()
    wanted: list[_Topic] | None = None if count < 0 else []
    group = _Group(group_id, member, wanted, ids)
    for _ in range(count):
        topic = await _read_topic(reader, topics, call, ids, pace)
        assert wanted is not None
        wanted.append(topic)
    if version >= _SEVERAL_SINCE:
        reader.end_struct()
    await pace.item()
    return group


async def _read_topic(reader: RequestReader, topics: Topics, call: Call, ids: dict[str, UUID], pace: Pace) -> _Topic:
    begin, problem = reader.position, ErrorCode.NONE
    if call.version >= _BY_ID_SINCE:
        known = topics.by_id(reader.uuid())
        name = None if known is None else known.name
        problem = ErrorCode.UNKNOWN_TOPIC_ID if known is None else problem
    else:
        name = reader.string()
        known = topics.get(name)
    if known is not None:
        ids[known.name] = known.id
    access = call.access
    if access is not None and name is not None and not access.topic(name):
        name, problem = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = _Topic(reader.since(begin), name, array("i"), problem)
    left = reader.array_length()
    while left:
        count = min(left, CHUNK)
        topic.indexes.extend(unpack(f">{count}i", reader.view(count * _INT32.size)))
        left -= count
        await pace.item(count // 8)
    reader.end_struct()
    await pace.item()
    return topic


async def _answered(group: _Group, stable: bool, call: Call, context: BrokerContext, pace: Pace) -> Packed:
    """Return the packed answer of a group, without its id. `stable`: pending offsets are errors."""
    packed, code, access = Packed(pace), ErrorCode.NONE, call.access
    try:
        if access is not None:
            access.require_group(group.group_id)
        if group.topics is None:
            await _pack_all(await _fetched_all(group, stable, context), packed, call, context, pace)
        else:
            await _pack_topics(group.topics, await _fetched(group, stable, context, pace), packed, call)
    except KafkaError as error:
        call.error = code = error.code
        shown = () if call.version >= _GROUP_ERROR_SINCE else group.topics or ()
        await packed.add(array_length(len(shown), call.flexible))
        for topic in shown:
            await _pack_refused(topic, code, packed, call)
    if call.version >= _GROUP_ERROR_SINCE:
        await packed.add(_INT16.pack(code))
    await packed.add(_end(call))
    if group.topics is not None:
        await call.completion.slices.finish(let_go(group.topics))
    return packed


async def _fetched_all(group: _Group, stable: bool, context: BrokerContext) -> _AllOffsets:
    return await context.groups.submit(
        group.group_id,
        lambda state, _: ((), fetch_all(state, group.member, group.group_id, require_stable=stable)),
    )


async def _fetched(group: _Group, stable: bool, context: BrokerContext, pace: Pace) -> Iterator[FetchedOffset]:
    """Fetch the offsets of a group in chunks, so that other requests run in between. Raises KafkaError."""
    partitions = deque[tuple[str, int]]()
    for topic in group.topics or ():
        await pace.item()
        for index in topic.indexes if topic.name is not None else ():
            partitions.append((topic.name or "", index))
            await pace.item()
    slowly = one_by_one(chunks(partitions, CHUNK), lambda some: _fetched_some(group, stable, some, context), pace)
    try:
        return chain.from_iterable(emptied(deque([some async for some in slowly])))
    except KafkaError:
        await pace.drain(partitions)
        raise


async def _fetched_some(
    group: _Group, stable: bool, partitions: Sequence[tuple[str, int]], context: BrokerContext
) -> Sequence[FetchedOffset]:
    group_id, member, ids = group.group_id, group.member, group.ids
    return await context.groups.submit(
        group_id, lambda state, _: ((), fetch(state, member, group_id, partitions, ids, require_stable=stable))
    )


async def _pack_topics(topics: Sequence[_Topic], found: Iterator[FetchedOffset], packed: Packed, call: Call) -> None:
    """Pack the topics with their offsets. A topic with a problem has only its error."""
    await packed.add(array_length(len(topics), call.flexible))
    for topic in topics:
        if topic.name is None:
            await _pack_refused(topic, topic.problem, packed, call)
            continue
        await packed.add(topic.named, array_length(len(topic.indexes), call.flexible))
        for _ in topic.indexes:
            offset = next(found)
            call.error = call.error or offset.code
            await packed.add(_partition(offset, offset.code, call))
        await packed.add(_end(call))


async def _pack_refused(topic: _Topic, code: ErrorCode, packed: Packed, call: Call) -> None:
    call.error = code
    await packed.add(topic.named, array_length(len(topic.indexes), call.flexible))
    for index in topic.indexes:
        await packed.add(_partition(FetchedOffset(index), code, call))
    await packed.add(_end(call))


async def _pack_all(
    found: _AllOffsets,
    packed: Packed,
    call: Call,
    context: BrokerContext,
    pace: Pace,
) -> None:
    """Pack all offsets of a group, without those of an earlier topic with the same name.

    Deleted topics have no id, so version 10 omits them.
    """
    by_topic, access = dict[str, list[FetchedOffset]](), call.access
    for (name, index), value in found:
        if access is not None and not access.topic(name, hides=True):
            continue
        known = context.image.topics.get(name)
        if value is not None and known is not None and not value.is_of(known.id):
            continue
        if value is None:
            fetched = unstable(index)
        else:
            fetched = FetchedOffset(index, value.offset, value.leader_epoch, value.metadata)
        by_topic.setdefault(name, []).append(fetched)
        await pace.item()
    named: dict[str, bytes] = {}
    for name in by_topic:
        known = context.image.topics.get(name)
        if call.version < _BY_ID_SINCE:
            named[name] = string(name, call.flexible)
        elif known is not None:
            named[name] = known.id.bytes
        await pace.item()
    await packed.add(array_length(len(named), call.flexible))
    for name, shown in named.items():
        await packed.add(shown, array_length(len(by_topic[name]), call.flexible))
        for offset in by_topic[name]:
            call.error = call.error or offset.code
            await packed.add(_partition(offset, offset.code, call))
        await packed.add(_end(call))


def _partition(found: FetchedOffset, code: ErrorCode, call: Call) -> bytes:
    partition, offset, epoch, metadata, _ = found
    if call.version >= _EPOCH_SINCE:
        numbers = _WITH_EPOCH.pack(partition, offset, epoch)
    else:
        numbers = _WITHOUT_EPOCH.pack(partition, offset)
    return numbers + nullable_string(metadata, call.flexible) + _INT16.pack(code) + _end(call)


def _end(call: Call) -> bytes:
    return b"\x00" if call.flexible else b""


API = ApiSpec(OFFSET_FETCH, "OffsetFetch", (1, 10), handle, reads="frame")
