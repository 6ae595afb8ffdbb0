"""Fetch's request and answer, versions 4 to 15, read and packed by hand: consumers' and followers' hot path. Pure.

- Versions from 13 name topics by id (KIP-516), version 15 brings the follower's broker epoch in a tagged field.
- There are no transactions: the last stable offset is the high watermark, and none was aborted.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from struct import Struct
from uuid import UUID

from broker_runtime.apis.call import Call
from broker_runtime.apis.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPartition, PartitionKey
from broker_runtime.wire.header import prefix
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Chunk, Reply
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
_NO_THROTTLE = b"\x00\x00\x00\x00"
_NO_READ_REPLICA = b"\xff\xff\xff\xff"


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
    request = FetchRequest(call, wait, min_bytes, max_bytes, isolation == _READ_COMMITTED, replica)
    request.session_id, request.session_epoch = session_id, session_epoch
    parts = request.parts
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if version >= _BY_ID_SINCE else reader.string()
        for _ in range(reader.array_length()):
            parts.append(_read_partition(topic, reader, version))
            reader.end_struct()
        reader.end_struct()
    if version >= 15 or session_epoch > 0:
        _read_forgotten(reader, request)
    if version >= 15:
        # The rack, which makes no difference.
        reader.string()
        _read_replica_state(reader, request)
    return request


def _read_partition(topic: str | UUID, reader: RequestReader, version: int) -> FetchPartition:
    epoch = last_epoch = start = -1
    if version >= 12:
        index, epoch, offset, last_epoch, start, size = reader.fixed(_PARTITION_V12)
    elif version >= 9:
        index, epoch, offset, start, size = reader.fixed(_PARTITION_V9)
    elif version >= 5:
        index, offset, start, size = reader.fixed(_PARTITION_V5)
    else:
        index, offset, size = reader.fixed(_PARTITION_V4)
    return FetchPartition(topic, index, offset, size, epoch, last_epoch, start)


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
    version, flexible, call.error = call.version, call.flexible, error
    end = b"\x00" if flexible else b""
    topics = _by_topic(parts)
    text = [_NO_THROTTLE, _ERROR_AND_SESSION.pack(error, session_id) if version >= 7 else b""]
    text.append(array_length(len(topics), flexible))
    chunks: list[Chunk] = []
    size = 0
    for topic, members in topics:
        text.append(string(topic, flexible) if isinstance(topic, str) else topic.bytes)
        text.append(array_length(len(members), flexible))
        for part in members:
            text.append(_partition_head(part, request, flexible))
            if part.code:
                call.error = part.code
            if part.region is not None:
                joined = b"".join(text)
                size += len(joined) + part.region.length
                chunks += (joined, part.region)
                text = []
            text.append(end)
        text.append(end)
    text.append(end)
    tail = b"".join(text)
    return (prefix(call.correlation_id, size + len(tail), flexible), *chunks, tail)


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
