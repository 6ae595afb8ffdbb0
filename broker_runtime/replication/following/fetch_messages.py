"""The follower's Fetch, version 15, packed and read by hand: it is the hot path between brokers.

Pure. Version 15 names topics by id and has the follower's broker epoch (KIP-516, KIP-903). In a session (KIP-227) a
request names only what has changed. Records stay views into the response.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length

FETCH_VERSION = 15
_HEAD = Struct(">iiibii")
_PARTITION = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">iq")
_ANSWER_HEAD = Struct(">ihi")
_RESULT = Struct(">ihqqq")
_INT32 = Struct(">i")
_ABORTED = Struct(">qq")
_NO_TAGS = b"\x00"
_EMPTY_TEXT = b"\x01"
_REPLICA_STATE_TAG = 1
_TOPIC = attrgetter("topic_id")
_FIRST = itemgetter(0)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch from a leader: the waiting time in milliseconds, the others in bytes."""

    wait_max_ms: int
    min_bytes: int
    partition_max_bytes: int
    response_max_bytes: int


class FetchedPartition(NamedTuple):
    """A partition that a follower fetches, with its offset and leader epoch."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int
    log_start_offset: int


class Fetched(NamedTuple):
    """A partition in a leader's response to a fetch.

    `code` is an error code of Kafka's; `records` may be None.
    """

    topic_id: UUID
    partition: int
    code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview | None


class FetchAnswer(NamedTuple):
    """A leader's response to a fetch: the id of the fetch session, 0 for none, and the partitions."""

    session_id: int
    parts: Iterator[Fetched]
    """The partitions, parsed during the iteration, which raises ProtocolError if the bytes are not a response."""


def pack_fetch(
    replica: int,
    broker_epoch: int,
    session: tuple[int, int],
    wanted: Sequence[FetchedPartition],
    forgotten: Sequence[tuple[UUID, int]],
    limits: FetchLimits,
) -> bytes:
    """Return the body of a Fetch request.

    `wanted` and `forgotten` are sorted by topic; `session` is the session's id and epoch.
    """
    out = [_HEAD.pack(limits.wait_max_ms, limits.min_bytes, limits.response_max_bytes, 0, *session), b""]
    topics = 0
    for topic_id, members in groupby(wanted, _TOPIC):
        topics += 1
        parts = [
            _PARTITION.pack(
                item.partition, item.leader_epoch, item.offset, -1, item.log_start_offset, limits.partition_max_bytes
            )
            for item in members
        ]
        out += (topic_id.bytes, array_length(len(parts), True), _NO_TAGS.join(parts), _NO_TAGS, _NO_TAGS)
    out[1] = array_length(topics, True)
    gone = [(topic_id, [index for _, index in members]) for topic_id, members in groupby(forgotten, _FIRST)]
    out.append(array_length(len(gone), True))
    for topic_id, indexes in gone:
        out += (topic_id.bytes, array_length(len(indexes), True), *map(_INT32.pack, indexes), _NO_TAGS)
    state = _REPLICA_STATE.pack(replica, broker_epoch) + _NO_TAGS
    # No rack, and one tagged field.
    out += (_EMPTY_TEXT, bytes((1, _REPLICA_STATE_TAG, len(state))), state)
    return b"".join(out)


def read_answer(body: memoryview) -> FetchAnswer:
    """Read the body of a Fetch response.

    Raises KafkaError if the whole request was rejected, ProtocolError for malformed bytes.
    """
    reader = RequestReader(body, 0, True)
    _throttle_ms, code, session_id = reader.fixed(_ANSWER_HEAD)
    if code:
        raise KafkaError(ErrorCode(code), "a leader refused a fetch")
    return FetchAnswer(session_id, _parts(reader))


def _parts(reader: RequestReader) -> Iterator[Fetched]:
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        for _ in range(reader.array_length()):
            index, code, high_watermark, _stable, start = reader.fixed(_RESULT)
            for _ in range(reader.nullable_array_length()):
                reader.fixed(_ABORTED)
                reader.end_struct()
            reader.fixed(_INT32)
            records = reader.nullable_bytes()
            reader.end_struct()
            yield Fetched(topic_id, index, code, high_watermark, start, records)
        reader.end_struct()
