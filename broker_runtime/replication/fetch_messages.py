"""The follower's Fetch, version 15, packed and read by hand: it is the hot path between brokers.

Pure. Version 15 names topics by id and carries the follower's broker epoch (KIP-516, KIP-903). Records stay views into
the answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.writer import array_length

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


@dataclass(frozen=True, slots=True)
class FetchLimits:
    wait_max_ms: int
    min_bytes: int
    partition_max_bytes: int
    response_max_bytes: int


class Wanted(NamedTuple):
    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int
    log_start_offset: int


class Fetched(NamedTuple):
    topic_id: UUID
    partition: int
    code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview | None


def pack_fetch(replica: int, broker_epoch: int, wanted: Sequence[Wanted], limits: FetchLimits) -> bytes:
    """The body of a request for these partitions, which are sorted by topic."""
    out = [_HEAD.pack(limits.wait_max_ms, limits.min_bytes, limits.response_max_bytes, 0, 0, -1), b""]
    topics = 0
    position, total = 0, len(wanted)
    while position < total:
        topic_id = wanted[position].topic_id
        end = position
        while end < total and wanted[end].topic_id == topic_id:
            end += 1
        topics += 1
        out.append(topic_id.bytes)
        out.append(array_length(end - position, True))
        for item in wanted[position:end]:
            out.append(
                _PARTITION.pack(
                    item.partition,
                    item.leader_epoch,
                    item.offset,
                    -1,
                    item.log_start_offset,
                    limits.partition_max_bytes,
                )
            )
            out.append(_NO_TAGS)
        out.append(_NO_TAGS)
        position = end
    out[1] = array_length(topics, True)
    state = _REPLICA_STATE.pack(replica, broker_epoch) + _NO_TAGS
    # No forgotten topics, no rack, and one tagged field.
    out += (_EMPTY_TEXT, _EMPTY_TEXT, bytes((1, _REPLICA_STATE_TAG, len(state))), state)
    return b"".join(out)


def read_answer(body: memoryview) -> Iterator[Fetched]:
    """Raises KafkaError when the whole request was refused, ProtocolError when the bytes are no answer."""
    reader = RequestReader(body, 0, True)
    _throttle_ms, code, _session_id = reader.fixed(_ANSWER_HEAD)
    if code:
        raise KafkaError(ErrorCode(code), "a leader refused a fetch")
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
