"""Frames of the push protocol, encoded and decoded by hand for the same reason as those of group_frames."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

REGISTER_CONSUMER, PING, STOP_FETCHER, START_FETCHER = range(30_002, 30_006)


class Part(NamedTuple):
    """A partition and the offset of the next record; negative if no record was read yet."""

    topic: str
    partition: int
    offset: int


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def register(group: str, consumer_id: str, topic: str, session_ms: int) -> bytes:
    """Encode a registration: one stream of one topic, from the beginning, with offsets in its answers."""
    body = struct.pack(">h", REGISTER_CONSUMER) + _string(group) + _string(consumer_id)
    body += _string(f'{{"{topic}": 1}}') + b"\1" + _string("smallest") + struct.pack(">i", session_ms)
    return _frame(body)


def read_registered(answer: bytes) -> int:
    """Return the error of the response."""
    return int.from_bytes(answer[:2], "big", signed=True)


def type_of(call: bytes) -> int:
    return int.from_bytes(call[:2], "big")


def read_start(call: bytes) -> list[Part]:
    """Return the partitions that all threads of a consumer must read."""
    at = 2

    def number(width: int) -> int:
        nonlocal at
        at += width
        return int.from_bytes(call[at - width : at], "big", signed=True)

    def string() -> str:
        nonlocal at
        length = number(2)
        at += length
        return call[at - length : at].decode()

    string()
    parts = []
    for _ in range(number(2)):
        string()
        for _ in range(number(2)):
            parts.append(Part(string(), int(string().rpartition("-")[2]), number(8)))
    return parts


def answer(kind: int, consumer_id: str, offsets: Sequence[Part] | None = None) -> bytes:
    """Encode the answer to a call of this type; the answer to StartFetcher has no offsets."""
    body = struct.pack(">hh", kind, 0) + _string(consumer_id)
    if offsets is not None:
        listed = [
            _string(part.topic) + _string(str(part.partition)) + struct.pack(">q", part.offset) for part in offsets
        ]
        body += struct.pack(">h", len(listed)) + b"".join(listed)
    return _frame(body)
