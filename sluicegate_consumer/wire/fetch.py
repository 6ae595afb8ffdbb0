"""Fetch, versions 4 to 11, without fetch sessions. Pure.

Later versions name topics by ID and encode fields differently, and have nothing that the consumer needs.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.fields import INT32, Cursor, text
from sluicegate_consumer.wire.kafka import FETCH, Request, by_topic

LOWEST, HIGHEST = 4, 11
_LIMITS, _SESSION = Struct(">iiiib"), Struct(">ii")
_NO_SESSION = _SESSION.pack(0, -1)
_ABORTED = Struct(">qq")


class Wanted(NamedTuple):
    """A partition to fetch, its start offset, and the maximum number of bytes.

    One batch of any size may exceed this maximum.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    bytes_max: int


class FetchLimits(NamedTuple):
    """Limits of one Fetch request: the longest wait for `bytes_min`, and the maximum size of the response."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    read_committed: bool


class Aborted(NamedTuple):
    """An aborted transaction: records of its producer from `first_offset` to its marker are void."""

    producer_id: int
    first_offset: int


class FetchedPartition(NamedTuple):
    """A partition in a Fetch response.

    `records` are whole batches, of which the first may begin before the wanted offset. The last batch may be truncated.
    """

    topic: str
    partition: int
    error_code: int
    aborted: tuple[Aborted, ...]
    records: memoryview


def fetch_request(version: int, limits: FetchLimits, wanted: Iterable[Wanted]) -> Request:
    wait_ms, bytes_min, bytes_max, read_committed = limits
    parts = ((each.topic, _wanted(version, each)) for each in wanted)
    session, forgotten, rack = b"", b"", b""
    if version >= 7:
        session, forgotten = _NO_SESSION, INT32.pack(0)
    if version >= 11:
        rack = text("")
    head = _LIMITS.pack(-1, wait_ms, bytes_min, bytes_max, read_committed)
    return Request(FETCH, version, head + session + by_topic(parts) + forgotten + rack)


def _wanted(version: int, each: Wanted) -> bytes:
    if version >= 9:
        return _WITH_EPOCH.pack(each.partition, each.leader_epoch, each.offset, -1, each.bytes_max)
    if version >= 5:
        return _WITH_LOG_START.pack(each.partition, each.offset, -1, each.bytes_max)
    return _PLAIN.pack(each.partition, each.offset, each.bytes_max)


_WITH_EPOCH, _WITH_LOG_START, _PLAIN = Struct(">iiqqi"), Struct(">iqqi"), Struct(">iqi")


def read_fetch(version: int, body: memoryview) -> Sequence[FetchedPartition]:
    """Parse a Fetch response. Raises ProtocolError, also if the broker rejects the whole request."""
    cursor = Cursor(body)
    cursor.number(INT32)
    if version >= 7:
        code, _ = cursor.fixed(_TOP)
        if code:
            raise ProtocolError(f"Fetch was refused with error {code}")
    topics = cursor.items(INT32, lambda each: (each.text(), each.items(INT32, lambda part: _fetched(version, part))))
    cursor.end()
    return [
        FetchedPartition(topic, number, code, aborted, records)
        for topic, parts in topics
        for number, code, aborted, records in parts
    ]


_TOP, _HEAD, _HEAD_WITH_LOG_START = Struct(">hi"), Struct(">ihqq"), Struct(">ihqqq")


def _fetched(version: int, cursor: Cursor) -> tuple[int, int, tuple[Aborted, ...], memoryview]:
    number, code = cursor.fixed(_HEAD_WITH_LOG_START if version >= 5 else _HEAD)[:2]
    aborted = cursor.items(INT32, lambda each: Aborted(*each.fixed(_ABORTED)))
    if version >= 11:
        cursor.number(INT32)
    length = cursor.number(INT32)
    return number, code, aborted, cursor.view(max(length, 0))
