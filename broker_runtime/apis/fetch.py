"""Fetch (1), versions 4 to 15: long poll, min and max bytes, whole batches straight from the segment files.

Records leave as regions of the files: the connection sends them without a copy, or joins small ones into one write.

- Sessions (KIP-227) are not kept: the answer's session id is 0, so clients go on with full requests.
- Isolation makes no difference to the records: there are no transactions, the last stable offset is the high watermark.
- Followers read up to the log's end, and by what they ask for say what they have (KIP-101, KIP-903). Consumers read
  up to the high watermark, from the leader only.
- Versions from 13 name topics by id (KIP-516), version 15 brings the follower's broker epoch in a tagged field.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from uuid import UUID

from broker_runtime.apis.context import Node
from broker_runtime.apis.list_offsets import check_epoch
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.storage.log import Log
from broker_runtime.wire.header import RequestHeader, response_prefix
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Chunk, FileRegion, PendingReply, Reply
from broker_runtime.wire.versions import FETCH, is_flexible
from broker_runtime.wire.writer import array_length, bytes_length, string

_HEAD_V15 = Struct(">iiibii")
_REPLICA_STATE = Struct(">iq")
_REPLICA_STATE_TAG = 1
_BY_ID_SINCE = 13
_CONSUMER = -1
_HEAD_V4 = Struct(">iiiib")
_HEAD_V7 = Struct(">iiiibii")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_INT32 = Struct(">i")
_READ_COMMITTED = 1
_RESULT_V4 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_ERROR_AND_SESSION = Struct(">hi")
_NO_THROTTLE = b"\x00\x00\x00\x00"
_NO_READ_REPLICA = b"\xff\xff\xff\xff"


@dataclass(slots=True)
class _Slice:
    """One asked-for partition: where to read, and what the last look found."""

    index: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_epoch: int = -1
    log_start: int = -1
    """Of a follower, which is told at once when the leader's has moved past it."""
    log: Log | None = None
    code: int = 0
    region: FileRegion | None = None
    refused: KafkaError | None = None


@dataclass(slots=True)
class _Query:
    version: int
    correlation_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    topics: list[tuple[str | UUID, list[_Slice]]] = field(default_factory=list)
    """By name, from version 13 on by id."""
    error: int = 0
    replica: int = _CONSUMER
    broker_epoch: int = -1


def handle(frame: memoryview, header: RequestHeader, node: Node) -> Reply | PendingReply:
    query = _read(frame, header)
    query.max_bytes = min(query.max_bytes, node.settings.config.fetch_max_bytes)
    if query.error:
        query.topics = []
        return _encode(query)
    if query.replica >= 0:
        _note_progress(query, node)
    found, news = _look(query, node)
    if found >= query.min_bytes or news or query.max_wait_ms <= 0 or not query.topics:
        return _encode(query)
    return _LongPoll(query, node).reply


def _read(frame: memoryview, header: RequestHeader) -> _Query:
    version = header.version
    reader = RequestReader(frame, header.body, is_flexible(FETCH, version))
    replica, session_epoch = _CONSUMER, -1
    if version >= 15:
        wait, min_bytes, max_bytes, isolation, _session_id, session_epoch = reader.fixed(_HEAD_V15)
    elif version >= 7:
        replica, wait, min_bytes, max_bytes, isolation, _session_id, session_epoch = reader.fixed(_HEAD_V7)
    else:
        replica, wait, min_bytes, max_bytes, isolation = reader.fixed(_HEAD_V4)
    query = _Query(version, header.correlation_id, wait, min_bytes, max_bytes, isolation == _READ_COMMITTED)
    query.replica = replica
    if session_epoch > 0:
        query.error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if version >= _BY_ID_SINCE else reader.string()
        slices = []
        for _ in range(reader.array_length()):
            slices.append(_read_partition(reader, version))
            reader.end_struct()
        query.topics.append((topic, slices))
        reader.end_struct()
    if version >= 15:
        _read_replica_state(reader, query)
    return query


def _read_replica_state(reader: RequestReader, query: _Query) -> None:
    for _ in range(reader.array_length()):
        reader.uuid()
        for _ in range(reader.array_length()):
            reader.fixed(_INT32)
        reader.end_struct()
    reader.string()
    state = reader.tagged_field(_REPLICA_STATE_TAG)
    if state is not None and len(state) >= _REPLICA_STATE.size:
        query.replica, query.broker_epoch = _REPLICA_STATE.unpack_from(state)


def _read_partition(reader: RequestReader, version: int) -> _Slice:
    epoch = last_epoch = start = -1
    if version >= 12:
        index, epoch, offset, last_epoch, start, size = reader.fixed(_PARTITION_V12)
    elif version >= 9:
        index, epoch, offset, start, size = reader.fixed(_PARTITION_V9)
    elif version >= 5:
        index, offset, start, size = reader.fixed(_PARTITION_V5)
    else:
        index, offset, size = reader.fixed(_PARTITION_V4)
    return _Slice(index, offset, size, epoch, last_epoch, start)


def _note_progress(query: _Query, node: Node) -> None:
    """A follower has everything below what it asks for. What is wrong with a partition `_look` finds again."""
    now_s = node.clock.monotonic()
    for topic, slices in query.topics:
        name = _name(topic, node)
        for part in slices:
            if name is None:
                continue
            try:
                leader = node.led(name, part.index)
                if part.leader_epoch == leader.leader_epoch and part.offset <= leader.log.log_end_offset:
                    leader.on_fetch(query.replica, query.broker_epoch, part.offset, now_s, part.log_start)
            except KafkaError as error:
                part.refused = error


def _name(topic: str | UUID, node: Node) -> str | None:
    if isinstance(topic, str):
        return topic
    known = node.image.topics.by_id(topic)
    return None if known is None else known.name


def _look(query: _Query, node: Node) -> tuple[int, bool]:
    """Fill each slice with what is there now: (bytes found, whether there is something else to tell at once).

    The first slice that has data may exceed every limit, so that a large batch never blocks a consumer (KIP-74).
    """
    left = query.max_bytes
    found = 0
    news = False
    follower = query.replica >= 0
    for topic, slices in query.topics:
        name = _name(topic, node)
        for part in slices:
            part.region = None
            part.code = 0
            try:
                if name is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic}")
                if part.refused is not None:
                    raise part.refused
                part.log, epoch = node.led_log(name, part.index)
                check_epoch(part.leader_epoch, epoch)
                if name == METADATA_TOPIC and part.last_epoch >= 0:
                    _check_history(part, part.log)
                limit = min(left, part.max_bytes)
                if limit > 0 or not found:
                    up_to = part.log.log_end_offset if follower else part.log.high_watermark
                    part.region = part.log.read(part.offset, limit, min_one=not found, up_to=up_to)
                if follower and 0 <= part.log_start < part.log.log_start_offset:
                    news = True
            except KafkaError as error:
                part.code = error.code
                part.log = None
                news = True
            if part.region is not None:
                found += part.region.length
                left -= part.region.length
    return found, news


def _check_history(part: _Slice, log: Log) -> None:
    """A broker has metadata of a history that this controller does not have (its data was restored, say).

    Kafka names the point of divergence, to which a follower goes back; an image cannot, and takes a snapshot.
    """
    known, end = log.end_offset_for_epoch(part.last_epoch)
    if known < part.last_epoch or end < part.offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {part.last_epoch} ends at offset {end} here")


def _encode(query: _Query) -> Reply:
    version = query.version
    flexible = is_flexible(FETCH, version)
    end = b"\x00" if flexible else b""
    text = [_NO_THROTTLE, _ERROR_AND_SESSION.pack(query.error, 0) if version >= 7 else b""]
    text.append(array_length(len(query.topics), flexible))
    chunks: list[Chunk] = []
    size = 0
    for topic, slices in query.topics:
        text.append(string(topic, flexible) if isinstance(topic, str) else topic.bytes)
        text.append(array_length(len(slices), flexible))
        for part in slices:
            text.append(_partition_head(part, query, flexible))
            if part.region is not None:
                joined = b"".join(text)
                size += len(joined) + part.region.length
                chunks += (joined, part.region)
                text = []
            text.append(end)
        text.append(end)
    text.append(end)
    tail = b"".join(text)
    prefix = response_prefix(FETCH, version, query.correlation_id, size + len(tail))
    return (prefix, *chunks, tail)


def _partition_head(part: _Slice, query: _Query, flexible: bool) -> bytes:
    """An aborted transaction there never is: none for a client that reads committed records, null for the others."""
    version = query.version
    log = part.log
    watermark = log.high_watermark if log is not None else -1
    start = log.log_start_offset if log is not None else -1
    if version >= 5:
        fixed = _RESULT_V5.pack(part.index, part.code, watermark, watermark, start)
    else:
        fixed = _RESULT_V4.pack(part.index, part.code, watermark, watermark)
    aborted = array_length(0 if query.read_committed and part.log is not None else -1, flexible)
    preferred = _NO_READ_REPLICA if version >= 11 else b""
    return fixed + aborted + preferred + bytes_length(part.region.length if part.region is not None else 0, flexible)


class _LongPoll:
    """Waits for data or for max_wait_ms, whichever comes first, then answers with what is there."""

    __slots__ = ("_node", "_on_news", "_query", "_timer", "_undo", "reply")

    def __init__(self, query: _Query, node: Node) -> None:
        self._query = query
        self._node = node
        self.reply = PendingReply(on_cancel=self._stop)
        self._undo: list[Callable[[], None]] = []
        self._timer = node.call_later(query.max_wait_ms / 1000, self.reply.guarded(self._finish))
        self._on_news = self.reply.guarded(self._look_again)
        self._watch()

    def _watch(self) -> None:
        for _, slices in self._query.topics:
            for part in slices:
                log = part.log
                if log is None:
                    continue
                if self._query.replica >= 0:
                    self._undo.append(log.add_end_waiter(log.log_end_offset, self._on_news))
                else:
                    self._undo.append(log.add_waiter(log.high_watermark, self._on_news))

    def _look_again(self) -> None:
        found, news = _look(self._query, self._node)
        if found >= self._query.min_bytes or news:
            self._answer()
        else:
            self._unwatch()
            self._watch()

    def _finish(self) -> None:
        _look(self._query, self._node)
        self._answer()

    def _answer(self) -> None:
        self._stop()
        self.reply.complete(_encode(self._query))

    def _unwatch(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _stop(self) -> None:
        self._timer.cancel()
        self._unwatch()
