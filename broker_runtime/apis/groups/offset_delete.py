"""OffsetDelete (47), version 0 (KIP-496): deletes committed offsets of topics that no member of the group reads.

Very many offsets are deleted in chunks, and read and packed by hand. If members that may read the topics join between
two chunks, the request is refused. The offsets already deleted remain deleted.
"""

from array import array
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, chunks, emptied, kept
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.offsets.delete import CHUNK, delete
from broker_runtime.metadata.areas.topics import Topics
from broker_runtime.slicing.steps import drain
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import OFFSET_DELETE

_INT32, _ANSWERED, _HEAD = Struct(">i"), Struct(">ih"), Struct(">hii")
"""Layouts of OffsetDelete's answer. The head is the group's error code, the throttle time in ms, and a topic count."""


class _Topic(NamedTuple):
    """A topic of a request. `named` is its encoded name; `there` has 1 for each partition that exists, else 0.

    `problem` is the error of the partitions that have 0.
    """

    named: bytes
    indexes: "array[int]"
    there: bytearray
    problem: ErrorCode


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Awaitable[Reply]:
    return _handle(kept(reader, call), call, context)


async def _handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    group_id = reader.string()
    access = call.access
    topics, known = await _read(reader, context.image.topics, Pace(call), access)
    try:
        if access is not None:
            access.require_group(group_id)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        # A request without partitions is also submitted, because its group may not exist.
        slowly = one_by_one(chunks(known, CHUNK), lambda some: _delete(group_id, some, context), Pace(call))
        told: deque[Iterable[ErrorCode]] = deque([codes async for codes in slowly])
    except KafkaError as error:
        call.error = error.code
        await call.completion.slices.finish(drain(topics))
        await call.completion.slices.finish(drain(known))
        return call.packed(_HEAD.pack(error.code, call.throttle_ms, 0))
    return await _answer(topics, chain.from_iterable(emptied(told)), call)


async def _read(
    reader: RequestReader, topics: Topics, pace: Pace, access: Access | None
) -> tuple[deque[_Topic], deque[tuple[str, int]]]:
    """Read the topics of the request, and the partitions that exist, both in order."""
    found, known = deque[_Topic](), deque[tuple[str, int]]()
    for _ in range(reader.array_length()):
        begin, name = reader.position, reader.string()
        exists, problem = topics.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if access is not None and not access.topic(name):
            exists, problem = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = _Topic(reader.since(begin), array("i"), bytearray(), problem)
        found.append(topic)
        for _ in range(reader.array_length()):
            (index,) = reader.fixed(_INT32)
            is_there = exists is not None and index in exists.partitions
            topic.indexes.append(index)
            topic.there.append(is_there)
            if is_there:
                known.append((name, index))
            await pace.item()
        await pace.item()
    return found, known


async def _delete(group_id: str, partitions: Sequence[tuple[str, int]], context: BrokerContext) -> Sequence[ErrorCode]:
    return await context.groups.submit(group_id, lambda state, _: delete(state, group_id, partitions))


async def _answer(topics: deque[_Topic], told: Iterator[ErrorCode], call: Call) -> Reply:
    packed = Packed(Pace(call), _HEAD.pack(ErrorCode.NONE, call.throttle_ms, len(topics)))
    for named, indexes, there, problem in emptied(topics):
        await packed.add(named, _INT32.pack(len(indexes)))
        for index, is_there in zip(indexes, there, strict=True):
            code = next(told) if is_there else problem
            call.error = call.error or code
            await packed.add(_ANSWERED.pack(index, code))
    return packed.reply(call)


API = ApiSpec(OFFSET_DELETE, "OffsetDelete", (0, 0), handle, reads="frame")
