"""OffsetCommit (8), versions 2 to 10 (KIP-848 from version 9, topic ids from version 10).

Read and packed by hand: consumers commit again and again.

- What does not exist is refused by itself: a topic, an id, a partition.
- A retention of its own, which versions 2 to 4 may ask for, is kept.
- Everything else is `groups.offsets`' to decide; a committer that is refused is refused for all of its partitions.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.groups.classic.heartbeats import keep_session
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit
from broker_runtime.groups.offsets.delete import SLICE
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import REQUEST_BYTES_MAX
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import OFFSET_COMMIT
from broker_runtime.wire.writer import array_length

_THROTTLE_SINCE = 3
_EPOCH_SINCE = 6
_INSTANCE_SINCE = 7
_BY_ID_SINCE = 10
_RETENTION = range(2, 5)
_INT32, _INT64 = Struct(">i"), Struct(">q")
_OFFSET, _OFFSET_AND_EPOCH = Struct(">iq"), Struct(">iqi")
_ANSWER, _FLEXIBLE_ANSWER = Struct(">ih"), Struct(">ihx")
"""Of a partition, the latter with no tagged fields."""


_NONE = ErrorCode.NONE


class _Topic(NamedTuple):
    """Of a request. `head`, its name or id and the number of its partitions, is how it begins in the answer too."""

    head: bytes
    indexes: list[int]
    problems: list[ErrorCode]
    """Of each partition; NONE where its offset may be committed."""


class _Request(NamedTuple):
    group_id: str
    committer: Committer
    retention_ms: int
    topics: list[_Topic]
    offsets: list[OffsetToCommit]
    """Of the partitions that exist."""


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | Awaitable[Reply]:
    """What exists is looked at once: it may change meanwhile. Raises ProtocolError where the frame is no request."""
    request = _read(reader, call.version, context.image)
    return _answer(request, call, context) if request.offsets else _packed(request.topics, (), call)


def _read(reader: RequestReader, version: int, image: MetadataImage) -> _Request:
    """Raises ProtocolError."""
    if reader.left > REQUEST_BYTES_MAX:
        raise ProtocolError("too-large", f"a commit of {reader.left} bytes; {REQUEST_BYTES_MAX} are allowed")
    group_id = reader.string()
    (generation,) = reader.fixed(_INT32)
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_SINCE else None
    (retention_ms,) = reader.fixed(_INT64) if version in _RETENTION else (-1,)
    offsets: list[OffsetToCommit] = []
    topics = [_read_topic(reader, version, image, offsets) for _ in range(reader.array_length())]
    reader.end_struct()
    return _Request(group_id, Committer(member_id, generation, instance_id, version), retention_ms, topics, offsets)


def _read_topic(reader: RequestReader, version: int, image: MetadataImage, offsets: list[OffsetToCommit]) -> _Topic:
    """`offsets` is given those of its partitions that exist."""
    at, flexible = reader.position, reader.flexible
    by_id, topics = version >= _BY_ID_SINCE, image.topics
    known = topics.by_id(reader.uuid()) if by_id else topics.get(reader.string())
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and known is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    count = reader.array_length()
    indexes: list[int] = []
    problems: list[ErrorCode] = []
    topic = _Topic(reader.since(at), indexes, problems)
    for _ in range(count):
        if version >= _EPOCH_SINCE:
            index, offset, leader_epoch = reader.fixed(_OFFSET_AND_EPOCH)
        else:
            (index, offset), leader_epoch = reader.fixed(_OFFSET), -1
        metadata = reader.nullable_string()
        if flexible:
            reader.end_struct()
        indexes.append(index)
        if known is not None and index in known.partitions:
            problems.append(_NONE)
            # Its constructor takes twice as long.
            found = (known.name, index, offset, leader_epoch, metadata, known.id)
            offsets.append(tuple.__new__(OffsetToCommit, found))
        else:
            problems.append(unknown)
    if flexible:
        reader.end_struct()
    return topic


async def _answer(request: _Request, call: Call, context: BrokerContext) -> Reply:
    offsets = request.offsets
    if len(offsets) <= SLICE:
        return _packed(request.topics, await _commit_some(request, offsets, context), call)
    answers = await asyncio.gather(
        *(_commit_some(request, offsets[at : at + SLICE], context) for at in range(0, len(offsets), SLICE))
    )
    return _packed(request.topics, [code for answer in answers for code in answer], call)


async def _commit_some(
    request: _Request, offsets: Sequence[OffsetToCommit], context: BrokerContext
) -> Sequence[ErrorCode]:
    """So many that others have their turn before the next ones; each partition has an error of its own."""
    try:
        return await context.groups.submit(
            request.group_id,
            lambda state, environment: commit(
                state,
                environment,
                partial(keep_session, environment),
                request.committer,
                request.group_id,
                offsets,
                request.retention_ms,
            ),
        )
    except KafkaError as error:
        return [error.code] * len(offsets)


def _packed(topics: Sequence[_Topic], taken: Sequence[ErrorCode], call: Call) -> Reply:
    """`taken` says what has become of each offset that might be committed, in their order."""
    version, flexible = call.version, call.flexible
    layout = _FLEXIBLE_ANSWER if flexible else _ANSWER
    end = b"\x00" if flexible else b""
    rest = iter(taken)
    parts = [_INT32.pack(call.throttle_ms)] if version >= _THROTTLE_SINCE else []
    parts.append(array_length(len(topics), flexible))
    error = ErrorCode.NONE
    for topic in topics:
        codes = [problem or next(rest) for problem in topic.problems]
        error = error or next(filter(None, codes), ErrorCode.NONE)
        parts += (topic.head, *map(layout.pack, topic.indexes, codes), end)
    parts.append(end)
    call.error = error
    return call.packed(b"".join(parts))


API = ApiSpec(OFFSET_COMMIT, "OffsetCommit", (2, 10), handle, reads="frame")
