"""What happened to the transactions of a cluster: requests and answers of clients, what they read, and the logs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker_runtime.storage.records.batch import iter_batches, iter_records
from kafka_bytes.batches import CONTROL, TRANSACTIONAL
from kafka_bytes.control import parse_marker

Key = tuple[str, int]


class End(Enum):
    """The end of a transaction, as far as its client knows it."""

    OPEN = "its client has asked for no end"
    COMMIT_ASKED = "its client has asked for a commit, and does not know the outcome"
    COMMITTED = "a broker has said that it is committed"
    ABORTED = "its client has asked for an abort, or its commit was certainly refused"


@dataclass(slots=True)
class Attempt:
    """One transaction of one client, whose values are unique in the history."""

    name: str
    outputs: dict[Key, list[bytes]] = field(default_factory=dict)
    """Values by partition, in the order in which they were sent."""
    end: End = End.OPEN
    consumed: tuple[int, ...] = ()
    """Offsets of the input records that the outputs result from, for a consume-transform-produce transaction."""
    next_offset: int = -1
    """The offset that the transaction commits for its group; -1 without one."""


class Seen(NamedTuple):
    """A record that a client has read."""

    offset: int
    value: bytes


@dataclass(slots=True)
class Reading:
    """The records of a partition that one client has read, from its beginning on up to `position`."""

    name: str
    key: Key
    is_committed_only: bool
    """Whether the client reads with isolation.level=read_committed."""
    seen: list[Seen] = field(default_factory=list)
    position: int = 0


@dataclass(slots=True)
class Transform:
    """A chain of consume-transform-produce transactions: every input record has to be processed exactly once."""

    group: str
    source: Key
    attempts: list[Attempt] = field(default_factory=list)
    committed_offset: int = 0
    """The group's committed offset at the end, 0 without one."""


class LogBatch(NamedTuple):
    """A batch of a partition's log."""

    base_offset: int
    last_offset: int
    producer_id: int
    is_transactional: bool
    marker: bool | None
    """For the end of a transaction: whether it is a commit. None for a batch of data."""
    values: tuple[bytes, ...]


@dataclass(slots=True)
class History:
    """A run: the attempts of all clients, what was read, and the logs after the last transaction has ended."""

    attempts: list[Attempt] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    transforms: list[Transform] = field(default_factory=list)
    logs: dict[Key, Sequence[LogBatch]] = field(default_factory=dict)


@dataclass(slots=True)
class View:
    """The records of a log, and its open transactions."""

    all: list[Seen] = field(default_factory=list)
    """Every record of data."""
    committed: list[Seen] = field(default_factory=list)
    """Records without a transaction, and those of committed transactions."""
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each producer's transaction that has not ended."""


def view_of(batches: Sequence[LogBatch]) -> View:
    """Derive the records of a log from its batches and markers alone, without an index of aborted transactions."""
    view, pending = View(), dict[int, list[Seen]]()
    for batch in batches:
        if batch.marker is not None:
            ended = pending.pop(batch.producer_id, [])
            if batch.marker:
                view.committed += ended
            continue
        records = [Seen(batch.base_offset + at, value) for at, value in enumerate(batch.values)]
        view.all += records
        if batch.is_transactional:
            pending.setdefault(batch.producer_id, []).extend(records)
        else:
            view.committed += records
    view.committed.sort()
    view.open = {producer_id: records[0].offset for producer_id, records in pending.items()}
    return view


def batches_of(content: bytes) -> Iterator[LogBatch]:
    """Parse the bytes of a log."""
    for header, batch in iter_batches(content):
        is_transactional = bool(header.attributes & TRANSACTIONAL)
        marker, values = None, tuple[bytes, ...]()
        if header.attributes & CONTROL:
            found = parse_marker(batch, header)
            marker = None if found is None else found.is_commit
        else:
            values = tuple(record.value or b"" for record in iter_records(batch))
        yield LogBatch(header.base_offset, header.last_offset, header.producer_id, is_transactional, marker, values)


def attempts_by_value(attempts: Sequence[Attempt]) -> Mapping[bytes, Attempt]:
    return {value: attempt for attempt in attempts for values in attempt.outputs.values() for value in values}
