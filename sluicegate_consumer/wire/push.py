"""The frames of the push protocol, as defined in docs/reference/push-protocol.md. Pure.

Reading raises ProtocolError; writing raises ValueError if a text or a list is too long.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.fields import INT8, INT16, INT32, INT32_MAX, INT64, Cursor, frame, items, text

CLUSTER_METADATA, REGISTER_CONSUMER, PING, STOP_FETCHER, START_FETCHER = range(30_001, 30_006)
NO_LEADER = -1
_DIGITS_MAX = 10
_PARTITION = re.compile(r"(?:([0-9]{1,10})-)?([0-9]{1,10})", re.ASCII)


class Broker(NamedTuple):
    """ID and address of a broker."""

    id: int
    host: str
    port: int


class ClusterMetadata(NamedTuple):
    """The coordinator of the requested group, and all brokers that serve."""

    error_code: int
    coordinator_id: int
    brokers: tuple[Broker, ...]


class PartitionOffset(NamedTuple):
    """`offset` is that of the next record; below 0 if none was read. `leader` is NO_LEADER if it is unknown."""

    topic: str
    partition: int
    offset: int
    leader: int = NO_LEADER


class Ping(NamedTuple):
    """Asks whether the consumer is alive."""

    consumer_id: str
    num_retries: int


class StopFetcher(NamedTuple):
    """Asks the consumer to stop reading and to report its positions."""

    consumer_id: str


class StartFetcher(NamedTuple):
    """Assigns exactly these partitions to the streams, by the number of the stream."""

    consumer_id: str
    streams: tuple[tuple[int, tuple[PartitionOffset, ...]], ...]
    brokers: tuple[Broker, ...]


Call = Ping | StopFetcher | StartFetcher


def cluster_metadata_request(group_id: str) -> bytes:
    return frame(INT16.pack(CLUSTER_METADATA), text(group_id))


def read_cluster_metadata(raw: memoryview) -> ClusterMetadata:
    cursor = Cursor(raw)
    found = ClusterMetadata(cursor.number(INT16), cursor.number(INT32), cursor.items(INT16, _broker))
    cursor.end()
    return found


class Registration(NamedTuple):
    """The fields of RegisterConsumerRequest, in order."""

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_reset: str
    session_timeout_ms: int

    def request(self) -> bytes:
        return frame(
            INT16.pack(REGISTER_CONSUMER),
            *(text(value) for value in (self.group_id, self.consumer_id, self.topic_count)),
            INT8.pack(self.auto_commit),
            text(self.auto_offset_reset),
            INT32.pack(self.session_timeout_ms),
        )


def read_registered(raw: memoryview) -> int:
    """Return the error code of the response to a registration."""
    cursor = Cursor(raw)
    code = cursor.number(INT16)
    cursor.end()
    return code


def read_call(raw: memoryview) -> Call:
    """Parse a call of the coordinator."""
    cursor = Cursor(raw)
    kind, consumer_id = cursor.number(INT16), cursor.text()
    call: Call
    if kind == PING:
        call = Ping(consumer_id, cursor.number(INT32))
    elif kind == STOP_FETCHER:
        call = StopFetcher(consumer_id)
    elif kind == START_FETCHER:
        call = StartFetcher(consumer_id, cursor.items(INT16, _ownership), cursor.items(INT16, _broker))
    else:
        raise ProtocolError(f"the coordinator sent a call of the unknown type {kind}")
    cursor.end()
    return call


def ping_answer(consumer_id: str, offsets: Sequence[PartitionOffset] | None) -> bytes:
    return _answer(PING, consumer_id, offsets)


def stop_answer(consumer_id: str, offsets: Sequence[PartitionOffset] | None) -> bytes:
    return _answer(STOP_FETCHER, consumer_id, offsets)


def start_answer(consumer_id: str) -> bytes:
    return _answer(START_FETCHER, consumer_id, None)


def _answer(kind: int, consumer_id: str, offsets: Iterable[PartitionOffset] | None) -> bytes:
    """Encode an answer without an error: a consumer that has failed closes the connection."""
    told = b"" if offsets is None else items(INT16, map(_offset, offsets))
    return frame(INT16.pack(kind), INT16.pack(0), text(consumer_id), told)


def _offset(told: PartitionOffset) -> bytes:
    return text(told.topic) + text(str(told.partition)) + INT64.pack(told.offset)


def _broker(cursor: Cursor) -> Broker:
    return Broker(cursor.number(INT32), cursor.text(), cursor.number(INT32))


def _ownership(cursor: Cursor) -> tuple[int, tuple[PartitionOffset, ...]]:
    thread_id = cursor.text()
    _, _, number = thread_id.rpartition("-")
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
        raise ProtocolError(f"{thread_id[:100]!r} does not name a stream")
    return int(number), cursor.items(INT16, _part)


def _part(cursor: Cursor) -> PartitionOffset:
    topic, named, offset = cursor.text(), cursor.text(), cursor.number(INT64)
    found = _PARTITION.fullmatch(named)
    if found is None or int(found[2]) > INT32_MAX:
        raise ProtocolError(f"{named[:100]!r} does not name a partition")
    return PartitionOffset(topic, int(found[2]), offset, NO_LEADER if found[1] is None else int(found[1]))
