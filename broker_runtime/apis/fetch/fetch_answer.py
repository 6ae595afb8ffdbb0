"""Fetch's answer, versions 4 to 18, packed by hand: consumers' and followers' hot path. Pure.

A client that reads committed records gets the aborted transactions of each partition's records (KIP-98). From version
16 on, a client that requests a partition from the wrong broker gets the partition's leader
(`FetchRequest.leaders`).
"""

from collections.abc import Callable, Collection
from struct import Struct
from uuid import UUID

from broker_runtime.apis.fetch.current_leaders import reports_leader
from broker_runtime.apis.fetch.fetch_request import FetchRequest
from broker_runtime.apis.fetch_sessions.fetch_partition import FetchPartition
from broker_runtime.apis.fetch_sessions.fetch_session import NO_SESSION
from broker_runtime.apis.fetch_sessions.repeated_fetch import FetchedTopics
from broker_runtime.remembering import remembered
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.writer import array_length, string
from broker_runtime.wire.header import prefix
from broker_runtime.wire.reply import Chunk, FileRegion, Reply
from kafka_bytes.varints import write_uvarint

_HEAD = Struct(">ihi")
_SESSIONS_SINCE = 7
_INT32 = Struct(">i")
_RESULT_V4 = Struct(">ihqqii")
_RESULT_V5 = Struct(">ihqqqii")
_RESULT_V11 = Struct(">ihqqqiii")
_RESULT_V12 = Struct(">ihqqqBi")
_BEGIN_V4 = Struct(">ihqq")
_BEGIN_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_ABORTED_V12 = Struct(">qqx")
"""An aborted transaction: producer id, first offset, and in a flexible version no tagged fields."""
_NO_READ_REPLICA = -1
_NO_TAGS = b"\x00"
_TOPICS_KEPT = 256
"""Number of packed topic headers that are cached for later answers."""
_TEXTS_OF_A_CHUNK = 1_000
_PARTITIONS_OF_A_STEP = 8
_PACKED_PARTITIONS_OF_A_STEP = 128


def pack_answer(request: FetchRequest, parts: Collection[FetchPartition], session_id: int, error: int = 0) -> Reply:
    """Pack the results of these partitions into a Fetch answer. Consecutive partitions of a topic share an entry."""
    call = request.call
    flexible, call.error = call.flexible, error
    topics = _by_topic(parts)
    text = _answer_head(request, len(topics), session_id, error)
    chunks: list[Chunk] = []
    for topic, members in topics:
        text.append(_topic_head(topic, len(members), flexible))
        for part in members:
            text.append(_partition_head(part, request))
            if part.code:
                call.error = part.code
            if part.region is not None:
                chunks += (b"".join(text), part.region)
                text = []
            if flexible:
                text.append(_tags(part, request) if part.code else _NO_TAGS)
        if flexible:
            text.append(_NO_TAGS)
    return _framed(request, chunks, text)


def pack_in_steps(
    request: FetchRequest,
    parts: Collection[FetchPartition],
    session_id: int,
    told: Callable[[FetchPartition], None],
) -> Steps[Reply]:
    """Pack a Fetch answer with many partitions in steps. Call `told` with each partition as soon as it is packed."""
    call = request.call
    flexible, call.error = call.flexible, 0
    topics = yield from _by_topic_in_steps(parts)
    answer = _LongAnswer(request, _answer_head(request, len(topics), session_id, 0))
    for topic, members in topics:
        answer.text.append(_topic_head(topic, len(members), flexible))
        for number, part in enumerate(members):
            answer.add(_partition_head(part, request), part.region)
            if part.code:
                call.error = part.code
            if flexible:
                answer.text.append(_tags(part, request) if part.code else _NO_TAGS)
            told(part)
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
        if flexible:
            answer.text.append(_NO_TAGS)
        yield
    return answer.framed()


def pack_all_in_steps(request: FetchRequest, topics: FetchedTopics) -> Steps[Reply]:
    """Pack all partitions of a Fetch answer with many of them, in steps."""
    flexible = request.call.flexible
    answer = _LongAnswer(request, _answer_head(request, len(topics), NO_SESSION, 0))
    for topic, members in topics:
        answer.text.append(_topic_head(topic, len(members), flexible))
        for number, part in enumerate(members):
            answer.add(part.packed, part.region)
            if part.region is not None and flexible:
                answer.text.append(_NO_TAGS)
            if number % _PACKED_PARTITIONS_OF_A_STEP == 0:
                yield
        if flexible:
            answer.text.append(_NO_TAGS)
        yield
    return answer.framed()


class _LongAnswer:
    """The chunks of an answer, and the bytes that follow the last chunk."""

    __slots__ = ("_chunks", "_request", "_size", "text")

    def __init__(self, request: FetchRequest, head: list[bytes]) -> None:
        self._request = request
        self._chunks: list[Chunk] = []
        self._size = 0
        self.text = head

    def add(self, head: bytes, region: FileRegion | None) -> None:
        """Add a partition without the bytes that follow its records."""
        self.text.append(head)
        if region is not None or len(self.text) >= _TEXTS_OF_A_CHUNK:
            self._join()
        if region is not None:
            self._chunks.append(region)
            self._size += region.length

    def _join(self) -> None:
        joined = b"".join(self.text)
        self.text.clear()
        self._chunks.append(joined)
        self._size += len(joined)

    def framed(self) -> Reply:
        call, leaders = self._request.call, self._request.leaders
        if call.flexible:
            self.text.append(_NO_TAGS if leaders is None else leaders.answer_tags())
        self._join()
        head = prefix(call.correlation_id, self._size, call.flexible)
        if len(self._chunks) == 1 and isinstance(self._chunks[0], bytes):
            return (head + self._chunks[0],)
        return (head, *self._chunks)


def _by_topic_in_steps(
    parts: Collection[FetchPartition],
) -> Steps[list[tuple[str | UUID, Collection[FetchPartition]]]]:
    topics: list[tuple[str | UUID, Collection[FetchPartition]]] = []
    before: str | UUID | None = None
    for number, part in enumerate(parts):
        if part.topic != before:
            before = part.topic
            members: list[FetchPartition] = []
            topics.append((before, members))
        members.append(part)
        if number % _PACKED_PARTITIONS_OF_A_STEP == 0:
            yield
    return topics


def _tags(part: FetchPartition, request: FetchRequest) -> bytes:
    leaders = request.leaders
    return (
        _NO_TAGS if leaders is None or not reports_leader(part.code) else leaders.partition_tags(part.topic, part.index)
    )


def pack_partition(part: FetchPartition, request: FetchRequest) -> None:
    """Cache the partition's part of a Fetch answer that contains all partitions.

    The partition's records follow this part.
    """
    flexible = request.call.flexible
    part.packed = _partition_head(part, request)
    if flexible and part.region is None:
        part.packed += _tags(part, request)


def pack_all(request: FetchRequest, topics: FetchedTopics) -> Reply:
    """Pack a Fetch answer from the cached parts of `pack_partition`."""
    call = request.call
    flexible = call.flexible
    text = _answer_head(request, len(topics), NO_SESSION, 0)
    chunks: list[Chunk] = []
    for topic, members in topics:
        text.append(_topic_head(topic, len(members), flexible))
        for part in members:
            text.append(part.packed)
            if part.region is not None:
                chunks += (b"".join(text), part.region)
                text = [_NO_TAGS] if flexible else []
        if flexible:
            text.append(_NO_TAGS)
    return _framed(request, chunks, text)


def _answer_head(request: FetchRequest, topics: int, session_id: int, error: int) -> list[bytes]:
    call = request.call
    with_session = call.version >= _SESSIONS_SINCE
    head = _HEAD.pack(call.throttle_ms, error, session_id) if with_session else _INT32.pack(call.throttle_ms)
    return [head, array_length(topics, call.flexible)]


@remembered(_TOPICS_KEPT)
def _topic_head(topic: str | UUID, partitions: int, flexible: bool) -> bytes:
    """Return the bytes of a topic that precede its partitions."""
    name = string(topic, flexible) if isinstance(topic, str) else topic.bytes
    return name + array_length(partitions, flexible)


def _framed(request: FetchRequest, chunks: list[Chunk], text: list[bytes]) -> Reply:
    """Return the reply.

    `chunks` has the regions, each with the bytes that precede it; `text` follows the last chunk.
    """
    call, leaders = request.call, request.leaders
    flexible = call.flexible
    if flexible:
        text.append(_NO_TAGS if leaders is None else leaders.answer_tags())
    tail = b"".join(text)
    if not chunks:
        return (prefix(call.correlation_id, len(tail), flexible) + tail,)
    size = sum(map(len, chunks), len(tail))
    head = prefix(call.correlation_id, size, flexible)
    return (head, *chunks, tail) if tail else (head, *chunks)


def _by_topic(parts: Collection[FetchPartition]) -> list[tuple[str | UUID, Collection[FetchPartition]]]:
    if len(parts) == 1:
        (part,) = parts
        return [(part.topic, (part,))]
    topics: list[tuple[str | UUID, Collection[FetchPartition]]] = []
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


def _partition_head(part: FetchPartition, request: FetchRequest) -> bytes:
    """Return the bytes of a partition that precede its records.

    The list of aborted transactions is null for a client that does not read committed records.
    """
    version, log, region = request.call.version, part.log, part.region
    if log is not None:
        watermark, start, aborted = log.high_watermark, log.log_start_offset, 0 if request.read_committed else -1
        stable = watermark if log.transactions.first_unstable >= watermark else log.last_stable_offset
    else:
        watermark = stable = start = aborted = -1
    size = 0 if region is None else region.length
    if not aborted and size and part.aborted:
        return _head_with_aborted(part, version, (watermark, stable, start), size)
    if version >= 12:
        fixed = _RESULT_V12.pack(part.index, part.code, watermark, stable, start, aborted + 1, _NO_READ_REPLICA)
        return fixed + write_uvarint(size + 1)
    if version == 11:
        return _RESULT_V11.pack(part.index, part.code, watermark, stable, start, aborted, _NO_READ_REPLICA, size)
    if version >= 5:
        return _RESULT_V5.pack(part.index, part.code, watermark, stable, start, aborted, size)
    return _RESULT_V4.pack(part.index, part.code, watermark, stable, aborted, size)


def _head_with_aborted(part: FetchPartition, version: int, offsets: tuple[int, int, int], size: int) -> bytes:
    """Return `_partition_head` with aborted transactions.

    `offsets` are the high watermark, the last stable offset and the log start.
    """
    flexible = version >= 12
    if version >= 5:
        begin = _BEGIN_V5.pack(part.index, part.code, *offsets)
    else:
        begin = _BEGIN_V4.pack(part.index, part.code, *offsets[:2])
    entry = _ABORTED_V12 if flexible else _ABORTED
    text = [begin, array_length(len(part.aborted), flexible), *(entry.pack(*each) for each in part.aborted)]
    if version >= 11:
        text.append(_INT32.pack(_NO_READ_REPLICA))
    text.append(write_uvarint(size + 1) if flexible else _INT32.pack(size))
    return b"".join(text)
