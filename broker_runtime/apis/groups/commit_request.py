"""The topics of OffsetCommit and TxnOffsetCommit, which have the same layout in both requests, and the answers to them.

Read and packed by hand, because consumers commit frequently. Many offsets take many iterations of the event loop.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.many_items import emptied
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length

ITEMS = 100
"""Number of partitions that are read or packed between two breaks."""
_INT32 = Struct(">i")
_OFFSET, _OFFSET_AND_EPOCH = Struct(">iq"), Struct(">iqi")
_ANSWER, _FLEXIBLE_ANSWER = Struct(">ih"), Struct(">ihx")
"""Layouts of a partition in the answer. The flexible layout ends with empty tagged fields."""
_NONE = ErrorCode.NONE


class TopicToCommit(NamedTuple):
    """A topic of a request. `head` has its name or id and its number of partitions, and also begins its answer."""

    head: bytes
    indexes: list[int]
    problems: list[ErrorCode]
    """Error code of each partition; NONE if its offset may be committed."""


class CommitRequest(NamedTuple):
    """A request that commits offsets of a group, without a transaction or in one."""

    group_id: str
    committer: Committer
    retention_ms: int
    topics: deque[TopicToCommit]
    offsets: list[OffsetToCommit]
    """Offsets of the partitions that exist."""


def read_topics(
    reader: RequestReader,
    call: Call,
    image: MetadataImage,
    request: CommitRequest,
    *,
    by_id: bool,
    has_epochs: bool,
    refusal: ErrorCode = _NONE,
) -> Iterator[int]:
    """Read the topics, and check now which partitions exist, because this may change later.

    Yields the numbers of items read. Topics are named by their ids if `by_id` is set, and offsets have leader epochs if
    `has_epochs` is. `refusal` is the error of all partitions, whatever else is wrong with them.
    """
    access = call.access
    for _ in range(reader.array_length()):
        yield from _read_topic(reader, image, request, access, by_id=by_id, has_epochs=has_epochs, refusal=refusal)
    reader.end_struct()


def _denial(access: Access, group_id: str, topic: str | None) -> ErrorCode:
    """Return the error of all partitions of a topic that the client may not commit. `topic` is None for unknown ids."""
    if not access.group(group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return _NONE if topic is None or access.topic(topic) else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _read_topic(
    reader: RequestReader,
    image: MetadataImage,
    request: CommitRequest,
    access: Access | None,
    *,
    by_id: bool,
    has_epochs: bool,
    refusal: ErrorCode,
) -> Iterator[int]:
    at, flexible, topics = reader.position, reader.flexible, image.topics
    name = None if by_id else reader.string()
    known = topics.by_id(reader.uuid()) if name is None else topics.get(name)
    refused = refusal
    if access is not None and not refused:
        refused = _denial(access, request.group_id, name if known is None else known.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and known is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    count = reader.array_length()
    indexes: list[int] = []
    problems: list[ErrorCode] = []
    request.topics.append(TopicToCommit(reader.since(at), indexes, problems))
    offsets = request.offsets
    for number in range(count):
        if number % ITEMS == ITEMS - 1:
            yield ITEMS
        if has_epochs:
            index, offset, leader_epoch = reader.fixed(_OFFSET_AND_EPOCH)
        else:
            (index, offset), leader_epoch = reader.fixed(_OFFSET), -1
        metadata = reader.nullable_string()
        if flexible:
            reader.end_struct()
        indexes.append(index)
        if refused:
            problems.append(refused)
        elif known is not None and index in known.partitions:
            problems.append(_NONE)
            # The constructor of OffsetToCommit takes twice as long.
            found = (known.name, index, offset, leader_epoch, metadata, known.id)
            offsets.append(tuple.__new__(OffsetToCommit, found))
        else:
            problems.append(unknown)
    if flexible:
        reader.end_struct()
    yield count % ITEMS + 1


def all_refused(offsets: Sequence[OffsetToCommit], error: KafkaError) -> Sequence[ErrorCode]:
    """Return the code of the error for each of the offsets."""
    return [error.code] * len(offsets)


def answer_parts(
    request: CommitRequest, taken: Iterable[ErrorCode], call: Call, *, has_throttle: bool
) -> Iterator[bytes]:
    """Yield the parts of the answer. `taken` has the result of each offset that could be committed, in order.

    The answer begins with the throttle time if `has_throttle` is set.
    """
    flexible, topics = call.flexible, request.topics
    layout = _FLEXIBLE_ANSWER if flexible else _ANSWER
    end = b"\x00" if flexible else b""
    rest = iter(taken)
    if has_throttle:
        yield _INT32.pack(call.throttle_ms)
    yield array_length(len(topics), flexible)
    for head, indexes, problems in emptied(topics):
        yield head
        for at in range(0, len(indexes), ITEMS):
            codes = [problem or next(rest) for problem in problems[at : at + ITEMS]]
            call.error = call.error or next(filter(None, codes), _NONE)
            yield b"".join(map(layout.pack, indexes[at : at + ITEMS], codes))
        yield end
    yield end
