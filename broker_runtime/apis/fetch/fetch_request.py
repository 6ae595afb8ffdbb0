"""Fetch's request, versions 4 to 18, read by hand: consumers' and followers' hot path. Pure.

Versions from 13 name topics by id (KIP-516); versions from 15 contain the follower's broker epoch in a tagged field.
The tagged fields of partitions do not affect the answer: a replica's folder in version 17, and the high watermark that
it knows in version 18 (KIP-1166).
"""

from dataclasses import dataclass, field
from struct import Struct
from uuid import UUID

from broker_runtime.apis.fetch.current_leaders import CurrentLeaders
from broker_runtime.apis.fetch_sessions.fetch_partition import AskedPartition, PartitionKey
from broker_runtime.apis.fetch_sessions.fetch_session import FINAL_EPOCH, FULL_EPOCH, NO_SESSION
from broker_runtime.apis.fetch_sessions.repeated_fetch import PARTITIONS_MIN, PartitionBytes
from broker_runtime.apis.request.call import Call
from broker_runtime.slicing.steps import Steps, at_once, drain, in_order
from broker_runtime.wire.encoding.reader import RequestReader

_BY_ID_SINCE = 13
_LEADERS_SINCE = 16
CONSUMER = -1
_HEAD_V4 = Struct(">iiiib")
_HEAD_V7 = Struct(">iiiibii")
_HEAD_V15 = Struct(">iiibii")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_PARTITIONS = (_PARTITION_V4,) * 5 + (_PARTITION_V5,) * 4 + (_PARTITION_V9,) * 3 + (_PARTITION_V12,) * 7
"""Layout of a partition, by version."""
_INT32 = Struct(">i")
_REPLICA_STATE = Struct(">iq")
_REPLICA_STATE_TAG = 1
_READ_COMMITTED = 1
SHORT_BYTES = 512
"""Limit for reading a request at once. Longer requests are read in steps, because they may have many partitions."""
_PARTITIONS_OF_A_STEP = 16
_CHUNKS_OF_A_STEP = 500

Repeatable = dict[str | UUID, set[PartitionBytes]]


@dataclass(slots=True)
class FetchRequest:
    """A parsed Fetch request. Times are in ms.

    In a version without sessions the epoch is the final one: no session.
    """

    call: Call
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    replica: int = CONSUMER
    broker_epoch: int = -1
    session_id: int = NO_SESSION
    session_epoch: int = FINAL_EPOCH
    asked: list[AskedPartition] = field(default_factory=list)
    forgotten: list[PartitionKey] = field(default_factory=list)
    repeatable: Repeatable | None = None
    """The unparsed partitions of a request for many partitions without a session. Replaces `asked`."""
    leaders: CurrentLeaders | None = None
    """The leaders of refused partitions, if a leader caused a refusal and the client's version can receive it."""

    @property
    def uses_topic_ids(self) -> bool:
        return self.call.version >= _BY_ID_SINCE

    @property
    def is_incremental(self) -> bool:
        """Return whether the request continues a session."""
        return self.session_epoch not in (FULL_EPOCH, FINAL_EPOCH)

    @property
    def can_be_told_leaders(self) -> bool:
        return self.call.version >= _LEADERS_SINCE

    @property
    def wants_no_session(self) -> bool:
        """Return whether the client is a consumer that neither begins nor continues a session."""
        return self.session_epoch == FINAL_EPOCH and self.session_id == NO_SESSION and self.replica < 0


def read_request(reader: RequestReader, call: Call) -> FetchRequest:
    """Read a short Fetch request. Raises ProtocolError."""
    request = _read_head(reader, call)
    _read_topics(reader, request)
    at_once(_read_tail(reader, request))
    return request


def read_in_steps(reader: RequestReader, call: Call) -> Steps[FetchRequest]:
    """Read a Fetch request of any length in steps. Raises ProtocolError and RequestTooLargeError."""
    request = _read_head(reader, call)
    if request.wants_no_session:
        request.repeatable = yield from _read_chunks(reader, call.version)
    if request.repeatable is None:
        yield from _read_topics_in_steps(reader, request)
    yield from _read_tail(reader, request)
    if request.repeatable is not None and request.replica >= 0:
        yield from not_repeated(request)
    return request


def not_repeated(request: FetchRequest) -> Steps[None]:
    """Convert the unparsed partitions to `asked`, for a request that is not cached for its connection."""
    if request.repeatable is not None:
        request.asked += yield from asked_in(request.repeatable, request.call.version)
        request.repeatable = None


def _read_head(reader: RequestReader, call: Call) -> FetchRequest:
    version = call.version
    replica, session_id, session_epoch = CONSUMER, NO_SESSION, FINAL_EPOCH
    if version >= 15:
        wait, min_bytes, max_bytes, isolation, session_id, session_epoch = reader.fixed(_HEAD_V15)
    elif version >= 7:
        replica, wait, min_bytes, max_bytes, isolation, session_id, session_epoch = reader.fixed(_HEAD_V7)
    else:
        replica, wait, min_bytes, max_bytes, isolation = reader.fixed(_HEAD_V4)
    committed = isolation == _READ_COMMITTED
    return FetchRequest(call, wait, min_bytes, max_bytes, committed, replica, -1, session_id, session_epoch)


def _read_tail(reader: RequestReader, request: FetchRequest) -> Steps[None]:
    """Read the fields that follow the topics."""
    version = request.call.version
    if version >= 15 or request.session_epoch > 0:
        yield from _read_forgotten(reader, request)
    if version >= 15:
        # The rack, which is not used.
        reader.string()
        _read_replica_state(reader, request)


def _read_topics(reader: RequestReader, request: FetchRequest) -> None:
    layout, flexible = _PARTITIONS[request.call.version], reader.flexible
    asked, by_id = request.asked, request.uses_topic_ids
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if by_id else reader.string()
        for _ in range(reader.array_length()):
            asked.append(_asked(topic, reader.fixed(layout)))
            if flexible:
                reader.end_struct()
        if flexible:
            reader.end_struct()


def _read_topics_in_steps(reader: RequestReader, request: FetchRequest) -> Steps[None]:
    layout, flexible = _PARTITIONS[request.call.version], reader.flexible
    asked, by_id = request.asked, request.uses_topic_ids
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if by_id else reader.string()
        for number in range(reader.array_length()):
            asked.append(_asked(topic, reader.fixed(layout)))
            if flexible:
                reader.end_struct()
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
        reader.end_struct()
        yield


def _asked(topic: str | UUID, fields: tuple[int, ...]) -> AskedPartition:
    """Return the partition from the fields of any version. The versions differ in the number of fields."""
    count = len(fields)
    if count == 6:
        index, epoch, offset, last_epoch, start, size = fields
        return topic, index, offset, size, epoch, last_epoch, start
    if count == 5:
        index, epoch, offset, start, size = fields
        return topic, index, offset, size, epoch, -1, start
    if count == 4:
        index, offset, start, size = fields
        return topic, index, offset, size, -1, -1, start
    index, offset, size = fields
    return topic, index, offset, size, -1, -1, -1


def _read_chunks(reader: RequestReader, version: int) -> Steps[Repeatable | None]:
    """Read the partitions as unparsed bytes.

    None, with the reader's position unchanged, if there are few partitions, or some have tagged fields or are repeated.
    """
    place, counts = reader.position, reader.counts
    size = _PARTITIONS[version].size + reader.flexible
    found: dict[str | UUID, set[PartitionBytes]] = {}
    total = 0
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if version >= _BY_ID_SINCE else reader.string()
        count = reader.array_length()
        read = yield from _read_some_chunks(reader, count, size, found.setdefault(topic, set()))
        if not read:
            reader.go_back(place, counts)
            yield from let_go_of(found)
            return None
        reader.end_struct()
        total += count
        yield
    if total < PARTITIONS_MIN or total != sum(map(len, found.values())):
        reader.go_back(place, counts)
        yield from let_go_of(found)
        return None
    return found


def let_go_of(chunks: Repeatable) -> Steps[None]:
    """Empty the parts of a parsed request in steps.

    Freeing the sets of very many topics at once would take long even if they are empty.
    """
    while chunks:
        _, some = chunks.popitem()
        yield from drain(some)
        if len(chunks) % _PARTITIONS_OF_A_STEP == 0:
            yield


def _read_some_chunks(reader: RequestReader, count: int, size: int, found: set[PartitionBytes]) -> Steps[bool]:
    """Read the partitions of a topic into `found`. Returns False if one has tagged fields."""
    layout = Struct(f"{size}s")
    while count > 0:
        some = min(count, _CHUNKS_OF_A_STEP)
        view = reader.view(some * size)
        if reader.flexible and any(bytes(view[size - 1 :: size])):
            return False
        found.update(layout.iter_unpack(view))
        count -= some
        yield
    return True


def asked_by(topic: str | UUID, chunk: bytes, version: int) -> AskedPartition:
    return _asked(topic, _PARTITIONS[version].unpack_from(chunk))


def asked_in(chunks: Repeatable, version: int) -> Steps[list[AskedPartition]]:
    """Return the partitions that a Fetch request asks for, in order.

    Empty `chunks` in steps, because freeing all at once would take long.
    """
    asked = []
    for topic, some in chunks.items():
        ordered = yield from in_order(some)
        some.clear()
        ordered.reverse()
        while ordered:
            (chunk,) = ordered.pop()
            asked.append(asked_by(topic, chunk, version))
            if len(ordered) % _PARTITIONS_OF_A_STEP == 0:
                yield
        yield
    yield from let_go_of(chunks)
    return asked


def _read_forgotten(reader: RequestReader, request: FetchRequest) -> Steps[None]:
    for _ in range(reader.array_length()):
        topic: str | UUID = reader.uuid() if request.uses_topic_ids else reader.string()
        for number in range(reader.array_length()):
            (index,) = reader.fixed(_INT32)
            request.forgotten.append((topic, index))
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
        reader.end_struct()
        yield


def _read_replica_state(reader: RequestReader, request: FetchRequest) -> None:
    state = reader.tagged_field(_REPLICA_STATE_TAG)
    if state is not None and len(state) >= _REPLICA_STATE.size:
        request.replica, request.broker_epoch = _REPLICA_STATE.unpack_from(state)
