"""Frames of group members, encoded and decoded by hand.

One process plays thousands of members beside the broker that it loads, so these codecs have to be cheap. Both subjects
serve the versions; those of the classic protocol are the newest without tagged fields.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

_CLIENT = b"crowd"
_REBALANCE_MS = 300_000
_NULL = b"\xff\xff"
_PROTOCOL = "range"

Owned = Mapping[UUID, Sequence[int]]


class Joined(NamedTuple):
    """A JoinGroup response; only the leader receives `members`."""

    error: int
    generation: int
    leader: str
    member_id: str
    members: Sequence[str]


class Beat(NamedTuple):
    """A ConsumerGroupHeartbeat response; `assignment` is None if the response has none."""

    error: int
    member_id: str
    epoch: int
    interval_s: float
    assignment: Owned | None


class Place(NamedTuple):
    """A FindCoordinator response."""

    error: int
    node_id: int
    host: str
    port: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4  # After the correlation ID.

    def number(self, width: int) -> int:
        self._at += width
        return int.from_bytes(self._data[self._at - width : self._at], "big", signed=True)

    def take(self, length: int) -> bytes:
        self._at += length
        return self._data[self._at - length : self._at]

    def string(self) -> str:
        return self.take(max(self.number(2), 0)).decode()

    def data(self) -> bytes:
        return self.take(max(self.number(4), 0))

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact_string(self) -> str:
        return self.take(max(self.varint() - 1, 0)).decode()


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _data(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _compact(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data) + 1) + data


def _frame(key: int, version: int, body: bytes, flexible: bool = False) -> bytes:
    head = struct.pack(">hhih", key, version, 0, len(_CLIENT)) + _CLIENT + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def find_coordinator(group: str) -> bytes:
    return _frame(10, 2, _string(group) + b"\0")


def read_coordinator(answer: bytes) -> Place:
    reader = _Reader(answer)
    reader.number(4)
    error = reader.number(2)
    reader.string()
    return Place(error, reader.number(4), reader.string(), reader.number(4))


def subscription(topic: str) -> bytes:
    return struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">i", -1)


def partitions_of(topic: str, partitions: Sequence[int]) -> bytes:
    """Encode an assignment in the format that consumers exchange."""
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + _string(topic) + numbers + struct.pack(">i", -1)


def join(group: str, member_id: str, session_ms: int, metadata: bytes) -> bytes:
    body = _string(group) + struct.pack(">ii", session_ms, _REBALANCE_MS) + _string(member_id) + _NULL
    return _frame(11, 5, body + _string("consumer") + struct.pack(">i", 1) + _string(_PROTOCOL) + _data(metadata))


def read_joined(answer: bytes) -> Joined:
    reader = _Reader(answer)
    reader.number(4)
    error, generation = reader.number(2), reader.number(4)
    reader.string()
    leader, member_id = reader.string(), reader.string()
    members = []
    for _ in range(reader.number(4)):
        members.append(reader.string())
        reader.string()
        reader.data()
    return Joined(error, generation, leader, member_id, members)


def sync(group: str, generation: int, member_id: str, assignments: Mapping[str, bytes]) -> bytes:
    listed = b"".join(_string(one) + _data(assignment) for one, assignment in assignments.items())
    body = _string(group) + struct.pack(">i", generation) + _string(member_id) + _NULL
    return _frame(14, 3, body + struct.pack(">i", len(assignments)) + listed)


def read_synced(answer: bytes) -> tuple[int, bytes]:
    """Return the error and the assignment."""
    reader = _Reader(answer)
    reader.number(4)
    return reader.number(2), reader.data()


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    return _frame(12, 3, _string(group) + struct.pack(">i", generation) + _string(member_id) + _NULL)


def leave(group: str, member_id: str) -> bytes:
    return _frame(13, 3, _string(group) + struct.pack(">i", 1) + _string(member_id) + _NULL)


def commit(group: str, generation: int, member_id: str, topic: str, partitions: Sequence[int], offset: int) -> bytes:
    listed = b"".join(struct.pack(">iqi", number, offset, -1) + _string("") for number in partitions)
    body = _string(group) + struct.pack(">i", generation) + _string(member_id) + _NULL
    return _frame(8, 7, body + struct.pack(">i", 1) + _string(topic) + struct.pack(">i", len(partitions)) + listed)


def read_error(answer: bytes) -> int:
    """Return the error of a Heartbeat or LeaveGroup response."""
    return int.from_bytes(answer[8:10], "big", signed=True)


def read_commit_error(answer: bytes) -> int:
    """Return the error of the last partition, which is at the end."""
    return int.from_bytes(answer[-2:], "big", signed=True)


def consumer_heartbeat(
    group: str, member_id: str, epoch: int, topic: str | None = None, owned: Owned | None = None
) -> bytes:
    """Encode a heartbeat: with `topic` a full one, without it only a sign of life."""
    body = _compact(group) + _compact(member_id) + struct.pack(">i", epoch) + b"\0\0"
    body += struct.pack(">i", -1 if topic is None else _REBALANCE_MS)
    body += (b"\0" if topic is None else b"\2" + _compact(topic)) + b"\0\0"
    if owned is None:
        body += b"\0"
    else:
        body += _varint(len(owned) + 1)
        for topic_id, partitions in owned.items():
            body += topic_id.bytes + _varint(len(partitions) + 1)
            body += struct.pack(f">{len(partitions)}i", *partitions) + b"\0"
    return _frame(68, 1, body + b"\0", flexible=True)


def read_beat(answer: bytes) -> Beat:
    reader = _Reader(answer)
    reader.varint()
    reader.number(4)
    error = reader.number(2)
    reader.compact_string()
    member_id, epoch, interval_ms = reader.compact_string(), reader.number(4), reader.number(4)
    if error or reader.number(1) < 0:
        return Beat(error, member_id, epoch, interval_ms / 1000, None)
    assignment = {}
    for _ in range(reader.varint() - 1):
        topic_id = UUID(bytes=reader.take(16))
        assignment[topic_id] = [reader.number(4) for _ in range(reader.varint() - 1)]
        reader.varint()
    return Beat(error, member_id, epoch, interval_ms / 1000, assignment)
