"""The records that the application receives."""

from typing import NamedTuple, Protocol


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Acknowledged(Protocol):
    """The partition that a record was read from, while the partition is assigned."""

    @property
    def dropped(self) -> bool: ...

    def acknowledge(self, offset: int) -> bool: ...


class Record:
    """One record from a partition. `headers` are names and values in order."""

    __slots__ = ("_source", "headers", "key", "offset", "partition", "stream", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        source: Acknowledged,
        at: tuple[str, int, int],
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> None:
        self._source = source
        self.topic, self.partition, self.stream = at
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers

    def acknowledge(self) -> bool:
        """Mark this record and all before it in its partition as processed, so that they are not read again.

        Returns False if the partition has been revoked since the delivery: its present consumer reads the record again.
        """
        return self._source.acknowledge(self.offset)

    @property
    def is_current(self) -> bool:
        """Return whether the record's partition is still assigned as it was when the record was fetched."""
        return not self._source.dropped

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition}@{self.offset}, key={self.key!r:.50}, value={self.value!r:.50})"
