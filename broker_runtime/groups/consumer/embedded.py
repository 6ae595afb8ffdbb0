"""The messages inside the classic protocol for groups of type `consumer`: subscription and assignment. Pure.

Both messages begin with an int16 version, and newer versions add fields at the end: unknown fields are not read.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from broker_runtime.slicing.steps import Steps, in_order, listed

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_OWNED_SINCE, _GENERATION_SINCE, _RACK_SINCE = 1, 2, 3
_ASSIGNMENT_VERSION_MAX = 3
_INDEXES_OF_A_STEP = 256
_NULL = _INT32.pack(-1)

PartitionsByName = Mapping[str, tuple[int, ...]]


class EmbeddedSubscription(NamedTuple):
    """The subscription of a classic member, as its bytes for the assignor contain it."""

    version: int
    topics: tuple[str, ...]
    owned: PartitionsByName | None
    """The partitions that the member owns; None if the version does not have this field."""
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    """The assignment to a classic member, as the bytes of the classic protocol contain it.

    `user_data` belongs to the client's own assignor.
    """

    partitions: PartitionsByName
    user_data: bytes


class _Bytes:
    """Reads fields one after another. Raises ValueError if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._data, self._at)
        except struct.error as error:
            raise ValueError(f"a number is cut off at the end of {len(self._data)} bytes: {error}") from None
        self._at += kind.size
        return int(value)

    def text(self) -> str | None:
        length = self.number(_INT16)
        return None if length < 0 else self._take(length).decode()

    def data(self) -> bytes:
        return self._take(max(0, self.number(_INT32)))

    def version(self) -> int:
        version = self.number(_INT16)
        if version < 0:
            raise ValueError(f"version {version}")
        return version

    def name(self) -> str:
        name = self.text()
        if name is None:
            raise ValueError(f"a topic at byte {self._at} of {len(self._data)} has no name")
        return name

    def count(self) -> int:
        """Read the number of items of an array, which may be empty but not null."""
        count = self.number(_INT32)
        if count < 0:
            raise ValueError(f"the array at byte {self._at} of {len(self._data)} has {count} items")
        return count

    def names(self) -> Steps[tuple[str, ...]]:
        """Read an array of texts."""
        return tuple((yield from listed(self.name() for _ in range(self.count()))))

    def partitions(self) -> Steps[PartitionsByName]:
        found: dict[str, tuple[int, ...]] = {}
        for _ in range(self.count()):
            name = self.name()
            found[name] = tuple((yield from self._indexes(self.count())))
            yield
        return found

    def _indexes(self, count: int) -> Steps[list[int]]:
        """Read numbers, sorted and without duplicates."""
        if count <= _INDEXES_OF_A_STEP:
            return sorted({self.number(_INT32) for _ in range(count)})
        found: set[int] = set()
        for start in range(0, count, _INDEXES_OF_A_STEP):
            few = min(_INDEXES_OF_A_STEP, count - start)
            found.update(struct.unpack(f">{few}i", self._take(few * _INT32.size)))
            yield
        return (yield from in_order(found))

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise ValueError(f"a field at byte {self._at} of {len(self._data)} needs {length} bytes")
        taken, self._at = self._data[self._at : end], end
        return taken


def subscription_version(metadata: bytes) -> int:
    """Return the version of a member's metadata without reading the rest. Raises ValueError."""
    return _Bytes(metadata).version()


def read_subscription(metadata: bytes) -> Steps[EmbeddedSubscription]:
    """Parse the subscription of a classic member. Raises ValueError."""
    reader = _Bytes(metadata)
    version = reader.version()
    topics = yield from reader.names()
    reader.data()
    owned = (yield from reader.partitions()) if version >= _OWNED_SINCE else None
    if version >= _GENERATION_SINCE:
        reader.number(_INT32)
    return EmbeddedSubscription(version, topics, owned, reader.text() if version >= _RACK_SINCE else None)


def read_assignment(assignment: bytes) -> Steps[EmbeddedAssignment]:
    """Parse the assignment of a classic member. Raises ValueError. Empty bytes are an assignment without partitions."""
    if not assignment:
        return EmbeddedAssignment({}, b"")
    reader = _Bytes(assignment)
    reader.version()
    return EmbeddedAssignment((yield from reader.partitions()), reader.data())


def write_assignment(version: int, partitions: PartitionsByName) -> bytes:
    """Encode an assignment in the version of the member's subscription."""
    parts = [_INT16.pack(min(version, _ASSIGNMENT_VERSION_MAX)), _INT32.pack(len(partitions))]
    for name, indexes in partitions.items():
        encoded = name.encode()
        parts += (_INT16.pack(len(encoded)), encoded, _INT32.pack(len(indexes)), *map(_INT32.pack, indexes))
    return b"".join((*parts, _NULL))
