"""What a fetch asks for, kept between two requests where the client wants that: fetch sessions (KIP-227). Pure.

In a session a request names only the partitions whose position has changed, and an answer those that have something to
say: records, an error, another high watermark or log start. So that nobody looks at the others either, a partition that
has nothing to say watches its log (storage.waiters), and goes to `FetchSession.to_look` when that changes.

Apache Kafka's rules: a session belongs to no connection; each request must carry the next epoch; when all slots are
taken, a session of less weight goes, or one that was not used for two minutes. Followers are privileged.
"""

from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.log import Log
from broker_runtime.storage.waiters import Watcher
from broker_runtime.wire.reply import FileRegion

NO_SESSION = 0
FULL_EPOCH = 0
FINAL_EPOCH = -1
_FIRST_INCREMENTAL_EPOCH = 1
_EPOCH_MAX = 2**31 - 1
_EVICTION_AGE_S = 120.0
_NO_ROOM_S = 1.0
"""How long consumers' sessions are not looked through again once none of them could go."""
NOTHING = (-1, -1)

PartitionKey = tuple[str | UUID, int]


class FetchPartition:
    """One partition that a fetch asks for: where it goes on, what the last look found, what was told of it."""

    __slots__ = (
        "code",
        "index",
        "last_epoch",
        "leader",
        "leader_epoch",
        "log",
        "log_start",
        "max_bytes",
        "offset",
        "packed",
        "region",
        "session",
        "stands_in",
        "told",
        "topic",
    )

    session: "FetchSession"

    def __init__(
        self,
        topic: str | UUID,
        index: int,
        offset: int,
        max_bytes: int,
        leader_epoch: int = -1,
        last_epoch: int = -1,
        log_start: int = -1,
    ) -> None:
        self.topic = topic
        """Its name, from version 13 on its id."""
        self.index = index
        self.offset = offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_epoch = last_epoch
        self.log_start = log_start
        """Of a follower, which is told at once when the leader's has moved past it."""
        self.log: Log | None = None
        self.leader: LeaderReplica | None = None
        """Of a follower's fetch."""
        self.code = 0
        self.region: FileRegion | None = None
        self.packed = b""
        """Its part of an answer that names all partitions, where that is kept."""
        self.told = NOTHING
        """The high watermark and the log start that the client of a session knows."""
        self.stands_in: dict[Watcher, None] | None = None
        """The watchers of its log, while it is one of them."""

    def ask(self, other: "FetchPartition") -> None:
        """Take over what a newer request says of the same partition."""
        self.offset, self.max_bytes, self.log_start = other.offset, other.max_bytes, other.log_start
        self.leader_epoch, self.last_epoch = other.leader_epoch, other.last_epoch

    @property
    def has_news(self) -> bool:
        """Whether a session's client has not heard of what the log says of itself."""
        log = self.log
        return log is not None and self.told != (log.high_watermark, log.log_start_offset)

    def read_from(self, log: Log) -> None:
        """Not from the one before, if there was one."""
        self.unwatch()
        self.log = log

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
        session = self.session
        if self.leader is not None and self not in session.to_look:
            # There was nothing to fetch for it up to this very change.
            self.leader.was_caught_up(session.replica, session.broker_epoch, self.offset, session.asked_s)
        session.part_changed(self)


class FetchSession:
    """All partitions of one client's fetches, or of a single fetch of a client that wants no session.

    Invariant: a partition that is not in `to_look` has no records to read at its offset and no error; once a request
    waits or the session is kept, it watches its log.
    """

    __slots__ = (
        "_is_watching",
        "_on_change",
        "_on_replaced",
        "asked_s",
        "broker_epoch",
        "counted",
        "created_s",
        "epoch",
        "id",
        "is_followers",
        "partitions",
        "replica",
        "to_look",
        "to_tell",
        "uses_topic_ids",
    )

    def __init__(
        self,
        parts: Iterable[FetchPartition],
        now_s: float,
        replica: int = -1,
        broker_epoch: int = -1,
        uses_topic_ids: bool = False,
    ) -> None:
        self.id = NO_SESSION
        self.epoch = _FIRST_INCREMENTAL_EPOCH
        self.replica = replica
        """The follower's id; negative for consumers."""
        self.is_followers = replica >= 0
        self.broker_epoch = broker_epoch
        self.uses_topic_ids = uses_topic_ids
        self.created_s = self.asked_s = now_s
        self.counted = 0
        """Of its partitions, by the cache that keeps it."""
        self.partitions: dict[PartitionKey, FetchPartition] = {}
        self.to_look: dict[FetchPartition, None] = {}
        self.to_tell: dict[FetchPartition, None] = {}
        """Those with nothing to read and with news that need not be told at once."""
        self._is_watching = False
        self._on_change: Callable[[], None] | None = None
        self._on_replaced: Callable[[ErrorCode], None] | None = None
        self.add(parts)

    @property
    def waits(self) -> bool:
        """Whether a request waits."""
        return self._on_change is not None

    def add(self, parts: Iterable[FetchPartition]) -> None:
        """Ask for these, too, or ask for more of them: whoever got records last is the last to get more."""
        for part in parts:
            key = (part.topic, part.index)
            known = self.partitions.get(key)
            if known is None:
                part.session = self
                self.partitions[key] = known = part
            else:
                known.ask(part)
                self.to_look.pop(known, None)
            self.to_look[known] = None

    def forget(self, key: PartitionKey) -> None:
        part = self.partitions.pop(key, None)
        if part is not None:
            self.to_look.pop(part, None)
            self.to_tell.pop(part, None)
            _leave(part)

    def update(
        self, parts: Iterable[FetchPartition], forgotten: Iterable[PartitionKey], now_s: float, broker_epoch: int
    ) -> None:
        """A further request: the epoch it carried was right."""
        if self._on_replaced is not None:
            self._on_replaced(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.epoch = _FIRST_INCREMENTAL_EPOCH if self.epoch == _EPOCH_MAX else self.epoch + 1
        self.asked_s = now_s
        if broker_epoch != self.broker_epoch:
            # What the follower had, it had in another life.
            self.broker_epoch = broker_epoch
            self.to_look.update(dict.fromkeys(self.partitions.values()))
        self.add(parts)
        for key in forgotten:
            self.forget(key)

    def has_nothing(self, quiet: Iterable[FetchPartition]) -> None:
        """These were looked at: no records, no error."""
        for part in quiet:
            del self.to_look[part]
            if self._is_watching:
                part.watch()
            if part.has_news:
                self.to_tell[part] = None

    def watch_quiet(self) -> None:
        """From here on the logs tell of what changes. Not before it is needed: most fetches are answered at once."""
        self._is_watching = True
        for part in self.partitions.values():
            if part not in self.to_look:
                part.watch()

    def watch_all_looked_at(self) -> None:
        """For a request that waits on: also those that have something, but too little."""
        for part in self.to_look:
            part.watch()

    def wait(self, on_change: Callable[[], None], on_replaced: Callable[[ErrorCode], None]) -> None:
        """A request waits: `on_change` when something comes into `to_look`, `on_replaced` when it must not wait on."""
        self._on_change, self._on_replaced = on_change, on_replaced
        if not self._is_watching:
            self.watch_quiet()
        self.watch_all_looked_at()

    def stop_waiting(self) -> None:
        self._on_change = self._on_replaced = None

    def part_changed(self, part: FetchPartition) -> None:
        self.to_look[part] = None
        if self._on_change is not None:
            self._on_change()

    def close(self) -> None:
        """Nothing is kept any more. A request that waits is answered with what is there."""
        if self._on_replaced is not None:
            self._on_replaced(ErrorCode.NONE)
        if self._is_watching:
            for part in self.partitions.values():
                _leave(part)


def _leave(part: FetchPartition) -> None:
    if part.leader is not None and part not in part.session.to_look:
        session = part.session
        part.leader.was_caught_up(session.replica, session.broker_epoch, part.offset, session.asked_s)
    part.unwatch()


class RandomIds(Protocol):
    """Where the ids of sessions come from: `random.Random`, or what a test has chosen."""

    def randrange(self, start: int, stop: int) -> int: ...


class Limits(Protocol):
    """The part of the broker's configuration that bounds the cache."""

    @property
    def max_incremental_fetch_session_cache_slots(self) -> int: ...

    @property
    def sluicegate_fetch_session_partitions_max(self) -> int: ...


class FetchSessionCache:
    """The sessions of one broker, in the order in which they were used last; their number is bounded, and so are the
    partitions of consumers. Lost with the process: clients then begin with a full request.
    """

    def __init__(self, limits: Limits, ids: RandomIds) -> None:
        self._slots = limits.max_incremental_fetch_session_cache_slots
        self._partitions_left = limits.sluicegate_fetch_session_partitions_max
        self._ids = ids
        self._sessions: dict[int, FetchSession] = {}
        self._no_room_until_s = float("-inf")

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def touch(self, session: FetchSession) -> bool:
        """It was used just now; False when it has grown beyond the room: it is no session any more, as after `keep`."""
        del self._sessions[session.id]
        if not self._count(session):
            self._forget_count(session)
            session.id = NO_SESSION
            return False
        self._sessions[session.id] = session
        return True

    def _count(self, session: FetchSession) -> bool:
        """Whether there is room for its partitions, which are counted then."""
        if session.is_followers:
            return True
        more = len(session.partitions) - session.counted
        if more > self._partitions_left:
            return False
        self._partitions_left -= more
        session.counted += more
        return True

    def _forget_count(self, session: FetchSession) -> None:
        self._partitions_left += session.counted
        session.counted = 0

    def keep(self, session: FetchSession, now_s: float) -> bool:
        """Give it an id; False when there is no room, and its client goes on with full requests."""
        if not self._count(session):
            return False
        if len(self._sessions) >= self._slots and not self._evict(session, now_s):
            self._forget_count(session)
            return False
        session.id = self._ids.randrange(1, 2**31)
        while session.id in self._sessions:
            session.id = self._ids.randrange(1, 2**31)
        self._sessions[session.id] = session
        return True

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._forget_count(session)
            session.close()

    def _evict(self, newcomer: FetchSession, now_s: float) -> bool:
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_s - stalest.asked_s <= _EVICTION_AGE_S:
            if not newcomer.is_followers and now_s < self._no_room_until_s:
                return False
            evictable = [each for each in self._sessions.values() if _may_go(each, newcomer, now_s)]
            stalest = min(evictable, key=_weight, default=None)
            if stalest is None or _weight(newcomer) < _weight(stalest):
                self._no_room_until_s = now_s + _NO_ROOM_S
                return False
        self.remove(stalest.id)
        return True


def _may_go(session: FetchSession, newcomer: FetchSession, now_s: float) -> bool:
    """A young session goes only if it is a consumer's and a follower comes."""
    if now_s - session.created_s > _EVICTION_AGE_S:
        return True
    return newcomer.is_followers and not session.is_followers


def _weight(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_followers, len(session.partitions), session.id
