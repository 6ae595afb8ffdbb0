"""The partitions of a fetch, kept between two reads, and in a session also between two requests. Pure.

In a session (KIP-227) a request names only the partitions whose position has changed. An answer contains only the
partitions with records, an error, or a changed high watermark or log start offset. The broker does not read the other
partitions either: each watches its log (storage.disk.waiters), and is added to `FetchSession.to_look` when the log
changes.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from broker_runtime.apis.fetch_sessions.fetch_partition import AskedPartition, FetchPartition, PartitionKey
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, at_once

NO_SESSION = 0
FULL_EPOCH = 0
FINAL_EPOCH = -1
_FIRST_INCREMENTAL_EPOCH = 1
_EPOCH_MAX = 2**31 - 1
_PARTITIONS_OF_A_STEP = 32
_ABSENT = object()


class AskedPartitions:
    """The partitions that one client asks for, and those of them that are to be read or reported."""

    __slots__ = (
        "_is_watching",
        "_notes_changes",
        "_on_change",
        "asked_s",
        "broker_epoch",
        "changed",
        "partitions",
        "replica",
        "to_look",
        "to_tell",
    )

    def __init__(self, asked_s: float, replica: int, broker_epoch: int) -> None:
        self.replica = replica
        """The follower's id; negative for consumers."""
        self.broker_epoch = broker_epoch
        self.asked_s = asked_s
        """Time of the last request, in seconds of the monotonic clock."""
        self.partitions: dict[PartitionKey, FetchPartition] = {}
        self.to_look: dict[FetchPartition, None] = {}
        """Partitions to read."""
        self.to_tell: dict[FetchPartition, None] = {}
        """Partitions without records whose changes the next answer reports."""
        self.changed: dict[FetchPartition, None] = {}
        """Partitions whose logs have changed since they were read, while a request waits or runs in steps."""
        self._is_watching = False
        self._notes_changes = False
        self._on_change: Callable[[], None] | None = None

    def add(self, asked: Iterable[AskedPartition]) -> None:
        """Add partitions to the fetch session, or update known ones.

        They move to the end of `to_look`, so that others are read first.
        """
        partitions, to_look = self.partitions, self.to_look
        for each in asked:
            key = each[:2]
            part = partitions.get(key)
            if part is None:
                partitions[key] = part = FetchPartition(each)
                part.session = self
            else:
                part.ask(each)
                to_look.pop(part, None)
            to_look[part] = None

    def adopt(self, parts: Iterable[FetchPartition]) -> None:
        """Take over partitions that were read before they had a session."""
        for part in parts:
            part.session = self
            self.partitions[part.topic, part.index] = part
            self.to_look[part] = None

    def _drop(self, key: PartitionKey) -> None:
        part = self.partitions.pop(key, None)
        if part is not None:
            self._leave(part)
            for parts in (self.to_look, self.to_tell, self.changed):
                parts.pop(part, None)

    def drop(self, forgotten: Iterable[PartitionKey]) -> None:
        """Remove partitions that the client does not request any more."""
        for key in forgotten:
            self._drop(key)

    def has_nothing(self, quiet: Iterable[FetchPartition]) -> None:
        """Record that these partitions were read and have neither records nor an error."""
        for part in quiet:
            if self.to_look.pop(part, _ABSENT) is _ABSENT:
                # The partition was removed from the session between two steps.
                continue
            if self._is_watching:
                part.watch()
            if part.has_news:
                self.to_tell[part] = None

    def _was_caught_up(self, part: FetchPartition) -> None:
        """Note that a follower had everything up to now."""
        if part.leader is not None:
            part.leader.was_caught_up(self.replica, self.broker_epoch, part.offset, self.asked_s)

    def _leave(self, part: FetchPartition) -> None:
        if part not in self.to_look:
            self._was_caught_up(part)
        part.unwatch()

    def part_changed(self, part: FetchPartition) -> None:
        if part not in self.to_look:
            self._was_caught_up(part)
            self.to_look[part] = None
        if self._notes_changes:
            self.changed[part] = None
        if self._on_change is not None:
            self._on_change()

    def part_has_news(self, part: FetchPartition) -> None:
        """Add the partition to the next answer, without answering at once."""
        if part not in self.to_look:
            self.to_tell[part] = None


class FetchSession(AskedPartitions):
    """All partitions of one client's fetches, or of a single fetch of a client without a session.

    Invariant: a partition that is not in `to_look` has no records at its offset and no error. While a request waits or
    the session is kept, such a partition watches its log.
    """

    __slots__ = (
        "_on_replaced",
        "allowed_by",
        "counted",
        "created_s",
        "epoch",
        "id",
        "is_busy",
        "is_followers",
        "is_over",
        "uses_topic_ids",
    )

    def __init__(
        self,
        asked: Iterable[AskedPartition],
        now_s: float,
        replica: int = -1,
        broker_epoch: int = -1,
        uses_topic_ids: bool = False,
    ) -> None:
        super().__init__(now_s, replica, broker_epoch)
        self.id = NO_SESSION
        self.epoch = _FIRST_INCREMENTAL_EPOCH
        self.is_followers = replica >= 0
        self.uses_topic_ids = uses_topic_ids
        self.created_s = now_s
        self.counted = 0
        """Number of the session's partitions that the session cache has counted."""
        self.allowed_by: object = None
        """The client and the ACLs for which the partitions were read; None without an authorizer."""
        self.is_busy = False
        """Whether a request runs in steps. No other request may use the session then."""
        self.is_over = False
        """Whether the session is closed or being closed."""
        self._on_replaced: Callable[[ErrorCode], None] | None = None
        self.add(asked)

    @property
    def waits(self) -> bool:
        """Return whether a Fetch request of the session waits for records."""
        return self._on_change is not None

    def advance(self, now_s: float, broker_epoch: int) -> None:
        """Continue the session with a further request, whose session epoch was correct."""
        if self._on_replaced is not None:
            self._on_replaced(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.epoch = _FIRST_INCREMENTAL_EPOCH if self.epoch == _EPOCH_MAX else self.epoch + 1
        self.asked_s = now_s
        if broker_epoch != self.broker_epoch:
            # The follower has restarted, so what it had before does not count.
            self.broker_epoch = broker_epoch
            self.to_look.update(dict.fromkeys(self.partitions.values()))

    def watch_as_looked_at(self) -> None:
        """Let partitions watch their logs as soon as they are read, for a request that runs in steps."""
        self._is_watching = self._notes_changes = True
        self.changed.clear()

    def watch_quiet(self) -> None:
        """Watch the logs of all partitions that need no read.

        Called late, because most fetches are answered at once.
        """
        self._is_watching = True
        for part in self.partitions.values():
            if part not in self.to_look:
                part.watch()

    def wait(self, on_change: Callable[[], None], on_replaced: Callable[[ErrorCode], None]) -> None:
        """Let a Fetch request wait for changes of the session's partitions.

        Call `on_change` when `changed` gets a partition, `on_replaced` to end the wait.
        """
        self._on_change, self._on_replaced = on_change, on_replaced
        if self._notes_changes:
            # All partitions have watched their logs since they were read, so some may have changed.
            if self.changed:
                on_change()
            return
        self._notes_changes = True
        self.changed.clear()
        if not self._is_watching:
            self.watch_quiet()
        # Partitions with some data, but too little, watch as well.
        for part in self.to_look:
            part.watch()

    def stop_waiting(self) -> None:
        self._on_change = self._on_replaced = None
        self._notes_changes = False
        self.changed.clear()

    def end_waiting(self) -> None:
        """Answer a waiting request with the data that is there, because the session has ended."""
        if self._on_replaced is not None:
            self._on_replaced(ErrorCode.NONE)

    def close(self) -> None:
        """End the session: `end_waiting`, then remove all partitions."""
        at_once(self.closing())

    def closing(self) -> Steps[None]:
        """End the session in steps: end the wait, then remove all partitions."""
        self.is_over = True
        self.end_waiting()
        parts = self.partitions
        while parts:
            for key in list(islice(parts, _PARTITIONS_OF_A_STEP)):
                part = parts.pop(key)
                if self._is_watching:
                    self._leave(part)
                # Each partition refers to this session. No reference cycle may outlive the session, because the
                # garbage collector does not search for cycles here.
                for some in (self.to_look, self.to_tell, self.changed):
                    some.pop(part, None)
            yield
