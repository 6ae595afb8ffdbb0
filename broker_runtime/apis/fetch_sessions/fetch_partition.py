"""One partition of a fetch: its next offset, the result of the last read, and what its client knows. Pure."""

from typing import Protocol
from uuid import UUID

from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.disk.waiters import Watcher
from broker_runtime.storage.log.log import Log
from broker_runtime.wire.reply import FileRegion

NOTHING = (-1, -1)

PartitionKey = tuple[str | UUID, int]

AskedPartition = tuple[str | UUID, int, int, int, int, int, int]
"""A partition in a request. A number is -1 if the request does not contain it.

The first fields are the topic (name, from version 13 on id), index, fetch offset, and maximum number of bytes. The
last three are the leader epoch and last fetched epoch that the client knows (KIP-320, KIP-595), and the start offset of
a follower's log.
"""


class PartitionOwner(Protocol):
    """The part of a session that its partitions call."""

    def part_changed(self, part: "FetchPartition", /) -> None:
        """Handle a change of the partition's log since its last read."""
        ...

    def part_has_news(self, part: "FetchPartition", /) -> None:
        """Handle a rise of the high watermark of the partition's log without any other change."""
        ...


class FetchPartition:
    """A partition that a fetch asks for. It belongs to one request, or to one session."""

    __slots__ = (
        "aborted",
        "code",
        "index",
        "last_epoch",
        "leader",
        "leader_epoch",
        "log",
        "log_start",
        "max_bytes",
        "member_of",
        "name",
        "offset",
        "packed",
        "region",
        "session",
        "told",
        "topic",
    )

    session: PartitionOwner
    aborted: list[tuple[int, int]]
    """The (producer id, first offset) of aborted transactions in `region`, for a client that reads committed records.
    """
    packed: bytes
    """The cached part of an answer that contains all partitions."""

    def __init__(self, asked: AskedPartition) -> None:
        self.topic, self.index, self.offset, self.max_bytes, self.leader_epoch, self.last_epoch, self.log_start = asked
        self.name: str | None = None
        """Name of a topic requested by id, once found. Kept after the topic's deletion, as in Kafka's sessions."""
        self.log: Log | None = None
        self.leader: LeaderReplica | None = None
        """The leader's replica, in a follower's fetch."""
        self.code = 0
        self.region: FileRegion | None = None
        self.told = NOTHING
        """The high watermark and log start offset that the client of a session knows."""
        self.member_of: dict[Watcher, None] | None = None
        """The watchers of the log, while this partition is one of them."""

    def ask(self, asked: AskedPartition) -> None:
        """Replace the values with those of a newer request for the same partition."""
        _, _, self.offset, self.max_bytes, self.leader_epoch, self.last_epoch, self.log_start = asked

    @property
    def has_news(self) -> bool:
        """Return whether the session's client does not know the current high watermark or log start offset."""
        log = self.log
        return log is not None and self.told != (log.high_watermark, log.log_start_offset)

    def note_told(self) -> None:
        """Record that the partition was packed into an answer, which now owns its records."""
        log = self.log
        self.region = None
        self.told = (log.high_watermark, log.log_start_offset) if log is not None else NOTHING

    def read_from(self, log: Log) -> None:
        """Read from this log from now on, and stop watching the previous log."""
        self.unwatch()
        self.log = log

    def fail(self, code: int) -> None:
        """Record that the partition cannot be read, with the error code for the client."""
        self.code = code
        self.unwatch()
        self.log = self.leader = None

    def watch(self) -> None:
        log = self.log
        if log is not None and (self.member_of is None or self not in self.member_of):
            self.member_of = (log.readers if self.leader is None else log.followers).add(self)

    def unwatch(self) -> None:
        if self.member_of is not None:
            self.member_of.pop(self, None)
            self.member_of = None

    def changed(self) -> None:
        """Record that the log of the fetched partition has changed."""
        self.member_of = None
        self.session.part_changed(self)

    def high_watermark_moved(self) -> None:
        """Handle a rise of a follower's high watermark. The next answer reports it, without a read."""
        self.session.part_has_news(self)
