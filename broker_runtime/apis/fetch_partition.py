"""One partition of a fetch: where it goes on, what the last look found, and what its client was told. Pure."""

from typing import Protocol
from uuid import UUID

from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.log import Log
from broker_runtime.storage.waiters import Watcher
from broker_runtime.wire.reply import FileRegion

NOTHING = (-1, -1)

PartitionKey = tuple[str | UUID, int]

AskedPartition = tuple[str | UUID, int, int, int, int, int, int]
"""What a request says of a partition: its topic (by name, from version 13 on by id) and index, the offset to go on at,
how many bytes it may be, the leader epoch and the last fetched epoch that the client knows (KIP-320, KIP-595), and the
start of a follower's log; -1 where it says nothing of one of them.
"""


class PartitionOwner(Protocol):
    """The session of a partition, as far as the partition speaks with it."""

    def part_changed(self, part: "FetchPartition", /) -> None:
        """Its log has changed since it was looked at last."""
        ...

    def part_has_news(self, part: "FetchPartition", /) -> None:
        """Of its log the high watermark has moved, and no more."""
        ...


class FetchPartition:
    """A partition that a fetch asks for. It belongs to one request, or to one session."""

    __slots__ = (
        "code",
        "index",
        "last_epoch",
        "leader",
        "leader_epoch",
        "log",
        "log_start",
        "max_bytes",
        "name",
        "offset",
        "packed",
        "region",
        "session",
        "stands_in",
        "told",
        "topic",
    )

    session: PartitionOwner
    packed: bytes
    """Its part of an answer that names all partitions, where that is kept."""

    def __init__(self, asked: AskedPartition) -> None:
        self.topic, self.index, self.offset, self.max_bytes, self.leader_epoch, self.last_epoch, self.log_start = asked
        self.name: str | None = None
        """Of a topic that is asked for by its id, once it was found; also when it has gone (as in Kafka's sessions)."""
        self.log: Log | None = None
        self.leader: LeaderReplica | None = None
        """Of a follower's fetch."""
        self.code = 0
        self.region: FileRegion | None = None
        self.told = NOTHING
        """The high watermark and the log start that the client of a session knows."""
        self.stands_in: dict[Watcher, None] | None = None
        """The watchers of its log, while it is one of them."""

    def ask(self, asked: AskedPartition) -> None:
        """Take over what a newer request says of the same partition."""
        _, _, self.offset, self.max_bytes, self.leader_epoch, self.last_epoch, self.log_start = asked

    @property
    def has_news(self) -> bool:
        """Whether a session's client has not heard of what the log says of itself."""
        log = self.log
        return log is not None and self.told != (log.high_watermark, log.log_start_offset)

    def note_told(self) -> None:
        """It was in an answer, which has its records now."""
        log = self.log
        self.region = None
        self.told = (log.high_watermark, log.log_start_offset) if log is not None else NOTHING

    def read_from(self, log: Log) -> None:
        """Not from the one before, if there was one."""
        self.unwatch()
        self.log = log

    def fail(self, code: int) -> None:
        """It cannot be read."""
        self.code = code
        self.unwatch()
        self.log = self.leader = None

    def watch(self) -> None:
        log = self.log
        if log is not None and (self.stands_in is None or self not in self.stands_in):
            self.stands_in = (log.readers if self.leader is None else log.followers).add(self)

    def unwatch(self) -> None:
        if self.stands_in is not None:
            self.stands_in.pop(self, None)
            self.stands_in = None

    def changed(self) -> None:
        """The log tells it."""
        self.stands_in = None
        self.session.part_changed(self)

    def high_watermark_moved(self) -> None:
        """The log tells it: a follower hears of it with the next answer, which need not be looked for."""
        self.session.part_has_news(self)
