"""Fetch's request and answer, versions 4 to 15, read and packed by hand: consumers' and followers' hot path. Pure.

- Versions from 13 name topics by id (KIP-516), version 15 brings the follower's broker epoch in a tagged field.
- There are no transactions: the last stable offset is the high watermark, and none was aborted.
"""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from struct import Struct
from uuid import UUID

from broker_runtime.apis.call import Call
from broker_runtime.apis.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPartition, PartitionKey
from broker_runtime.apis.repeated_fetch import PARTITIONS_MIN, PartitionBytes
from broker_runtime.wire.header import prefix
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Chunk, FileRegion, Reply
from broker_runtime.wire.writer import array_length, bytes_length, string

_BY_ID_SINCE = 13
CONSUMER = -1
_HEAD_V4 = Struct(">iiiib")
_HEAD_V7 = Struct(">iiiibii")
_HEAD_V15 = Struct(">iiibii")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_INT32 = Struct(">i")
_REPLICA_STATE = Struct(">iq")
_REPLICA_STATE_TAG = 1
_READ_COMMITTED = 1
_RESULT_V4 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_ERROR_AND_SESSION = Struct(">hi")
_NO_TAGS = b"\x00"
_MANY_BYTES = 512
"""A request that goes on for longer may ask for many partitions."""
_NO_THROTTLE = b"\x00\x00\x00\x00"
_NO_READ_REPLICA = b"\xff\xff\xff\xff"

Repeatable = Mapping[str | UUID, Set[PartitionBytes]]


@dataclass(slots=True)
class FetchRequest:
    """Times in ms. Of a version without sessions: the final epoch, which asks for none."""

    call: Call
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    replica: int = CONSUMER
    broker_epoch: int = -1
    session_id: int = NO_SESSION
    session_epoch: int = FINAL_EPOCH
    parts: list[FetchPartition] = field(default_factory=list)
    forgotten: list[PartitionKey] = field(default_factory=list)
    repeatable: Repeatable | None = None
    """Instead of `parts`, where many are asked for without a session."""

    @property
    def uses_topic_ids(self) -> bool:
        return self.call.version >= _BY_ID_SINCE


def read_request(reader: RequestReader, call: Call) -> FetchRequest:
    """Raises ProtocolError."""
    version = call.version
    replica, session_id, session_epoch = CONSUMER, NO_SESSION, FINAL_EPOCH
    if version >= 15:
        wait, min_bytes, max_bytes, isolation, session_id, session_epoch = reader.fixed(_HEAD_V15)
    elif version >= 7:
        replica, wait, min_bytes, max_bytes, isolation, session_id, session_epoch = reader.fixed(_HEAD_V7)
    else:
        replica, wait, min_bytes, max_bytes, isolation = reader.fixed(_HEAD_V4)
    committed = isolation == _READ_COMMITTED
    request = FetchRequest(call, wait, min_bytes, max_bytes, committed, replica, -1, session_id, session_epoch)
    if replica < 0 and session_epoch == FINAL_EPOCH and session_id == NO_SESSION and reader.left > _MANY_BYTES:
        request.repeatable = _read_chunks(reader, version)
    if request.repeatable is None:
        _read_topics(reader, request)
    if version >= 15 or session_epoch > 0:
        _read_forgotten(reader, request)
    if version >= 15:
        # The rack, which makes no difference.
        reader.string()
        _read_replica_state(reader, request)
    if request.repeatable is not None and request.replica >= 0:
        request.parts += parts_of(request.repeatable, version)
        request.repeatable = None
    return request


def _read_topics(reader: RequestReader, request: FetchRequest) -> None:
    layout, flexible = _partition_layout(request.call.version), reader.flexible
    parts, by_id = request.parts, request.uses_topic_ids
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if by_id else reader.string()
        for _ in range(reader.array_length()):
            parts.append(_partition(topic, reader.fixed(layout)))
            if flexible:
                reader.end_struct()
        if flexible:
            reader.end_struct()


def _partition_layout(version: int) -> Struct:
    if version >= 12:
        return _PARTITION_V12
    if version >= 9:
        return _PARTITION_V9
    return _PARTITION_V5 if version >= 5 else _PARTITION_V4


def _partition(topic: str | UUID, fields: tuple[int, ...]) -> FetchPartition:
    """Of the fields of any version; they differ in number."""
    count = len(fields)
    if count == 6:
        index, epoch, offset, last_epoch, start, size = fields
        return FetchPartition(topic, index, offset, size, epoch, last_epoch, start)
    if count == 5:
        index, epoch, offset, start, size = fields
        return FetchPartition(topic, index, offset, size, epoch, -1, start)
    if count == 4:
        index, offset, start, size = fields
        return FetchPartition(topic, index, offset, size, -1, -1, start)
    index, offset, size = fields
    return FetchPartition(topic, index, offset, size)


def _read_chunks(reader: RequestReader, version: int) -> Repeatable | None:
    """None, with nothing read, when there are few partitions, or some with tagged fields or named twice."""
    place = reader.position
    size = _partition_layout(version).size + reader.flexible
    layout = Struct(f"{size}s")
    found: dict[str | UUID, set[PartitionBytes]] = {}
    total = 0
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if version >= _BY_ID_SINCE else reader.string()
        count = reader.array_length()
        view = reader.view(count * size)
        if reader.flexible and any(bytes(view[size - 1 :: size])):
            reader.back_to(place)
            return None
        reader.end_struct()
        total += count
        found.setdefault(topic, set()).update(layout.iter_unpack(view))
    if total < PARTITIONS_MIN or total != sum(map(len, found.values())):
        reader.back_to(place)
        return None
    return found


def read_chunk(topic: str | UUID, chunk: bytes, version: int) -> FetchPartition:
    return _partition(topic, _partition_layout(version).unpack_from(chunk))


def parts_of(chunks: Repeatable, version: int) -> list[FetchPartition]:
    return [read_chunk(topic, chunk, version) for topic, some in chunks.items() for (chunk,) in sorted(some)]


def _read_forgotten(reader: RequestReader, request: FetchRequest) -> None:
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if request.uses_topic_ids else reader.string()
        for _ in range(reader.array_length()):
            (index,) = reader.fixed(_INT32)
            request.forgotten.append((topic, index))
        reader.end_struct()


def _read_replica_state(reader: RequestReader, request: FetchRequest) -> None:
    state = reader.tagged_field(_REPLICA_STATE_TAG)
    if state is not None and len(state) >= _REPLICA_STATE.size:
        request.replica, request.broker_epoch = _REPLICA_STATE.unpack_from(state)


def pack_answer(request: FetchRequest, parts: Collection[FetchPartition], session_id: int, error: int = 0) -> Reply:
    """What was found of these partitions; neighbours of one topic share an entry."""
    call = request.call
    flexible, call.error = call.flexible, error
    topics = _by_topic(parts)
    text = _answer_head(request, len(topics), session_id, error)
    chunks: list[Chunk] = []
    for topic, members in topics:
        _begin_topic(topic, len(members), text, flexible=flexible)
        for part in members:
            text.append(_partition_head(part, request, flexible))
            if part.code:
                call.error = part.code
            if part.region is not None:
                chunks += (b"".join(text), part.region)
                text = []
            if flexible:
                text.append(_NO_TAGS)
        if flexible:
            text.append(_NO_TAGS)
    return _framed(call, chunks, text)


def pack_partition(part: FetchPartition, request: FetchRequest) -> None:
    """Keep its part of an answer that names all partitions; the records come behind it."""
    flexible = request.call.flexible
    part.packed = _partition_head(part, request, flexible)
    if flexible and part.region is None:
        part.packed += _NO_TAGS


def pack_all(request: FetchRequest, topics: Collection[tuple[str | UUID, Collection[FetchPartition]]]) -> Reply:
    """An answer from what `pack_partition` has kept of each."""
    call = request.call
    flexible = call.flexible
    text = _answer_head(request, len(topics), NO_SESSION, 0)
    chunks: list[Chunk] = []
    for topic, members in topics:
        _begin_topic(topic, len(members), text, flexible=flexible)
        for part in members:
            text.append(part.packed)
            if part.region is not None:
                chunks += (b"".join(text), part.region)
                text = [_NO_TAGS] if flexible else []
        if flexible:
            text.append(_NO_TAGS)
    return _framed(call, chunks, text)


def _answer_head(request: FetchRequest, topics: int, session_id: int, error: int) -> list[bytes]:
    head = _ERROR_AND_SESSION.pack(error, session_id) if request.call.version >= 7 else b""
    return [_NO_THROTTLE, head, array_length(topics, request.call.flexible)]


def _begin_topic(topic: str | UUID, partitions: int, text: list[bytes], *, flexible: bool) -> None:
    text.append(string(topic, flexible) if isinstance(topic, str) else topic.bytes)
    text.append(array_length(partitions, flexible))


def _framed(call: Call, chunks: list[Chunk], text: list[bytes]) -> Reply:
    if call.flexible:
        text.append(_NO_TAGS)
    tail = b"".join(text)
    size = len(tail)
    for chunk in chunks:
        size += chunk.length if isinstance(chunk, FileRegion) else len(chunk)
    return (prefix(call.correlation_id, size, call.flexible), *chunks, tail)


def _by_topic(parts: Collection[FetchPartition]) -> list[tuple[str | UUID, list[FetchPartition]]]:
    if len(parts) == 1:
        (part,) = parts
        return [(part.topic, [part])]
    topics: list[tuple[str | UUID, list[FetchPartition]]] = []
    before: str | UUID | None = None
    for part in parts:
        topic = part.topic
        if topic != before:
            before = topic
            members = [part]
            topics.append((topic, members))
        else:
            members.append(part)
    return topics


def _partition_head(part: FetchPartition, request: FetchRequest, flexible: bool) -> bytes:
    """An aborted transaction there never is: none for a client that reads committed records, null for the others."""
    version = request.call.version
    log = part.log
    watermark = log.high_watermark if log is not None else -1
    start = log.log_start_offset if log is not None else -1
    if version >= 5:
        fixed = _RESULT_V5.pack(part.index, part.code, watermark, watermark, start)
    else:
        fixed = _RESULT_V4.pack(part.index, part.code, watermark, watermark)
    aborted = array_length(0 if request.read_committed and log is not None else -1, flexible)
    preferred = _NO_READ_REPLICA if version >= 11 else b""
    return fixed + aborted + preferred + bytes_length(part.region.length if part.region is not None else 0, flexible)
