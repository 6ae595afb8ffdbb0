"""The cache of fetch sessions of one broker (KIP-227), and its eviction rules. Pure.

The rules are those of Apache Kafka. A session does not belong to a connection, and each request must contain the next
epoch. If all slots are used, a session with less weight is evicted, or one that was not used for two minutes. Followers
are privileged.

Any client may claim to be a follower, so the partitions of followers' sessions are limited too, for each broker id.
"""

from collections.abc import Callable
from typing import Protocol

from broker_runtime.apis.fetch_sessions.fetch_session import NO_SESSION, FetchSession
from broker_runtime.config import INT_MAX
from broker_runtime.slicing.steps import Steps, at_once

_EVICTION_AGE_S = 120.0
_NO_ROOM_S = 1.0
"""Time before the sessions are searched again for a new consumer, after no session could be evicted."""


class RandomIds(Protocol):
    """The source of session ids: `random.Random`, or a test's object."""

    def randrange(self, start: int, stop: int) -> int: ...


class SessionLimits(Protocol):
    """The part of the broker's configuration that bounds the cache."""

    @property
    def max_incremental_fetch_session_cache_slots(self) -> int: ...

    @property
    def sluicegate_fetch_session_partitions_max(self) -> int: ...


def _any_number(_: int) -> int:
    return INT_MAX


class FetchSessionCache:
    """The sessions of one broker, in the order of their last use.

    Their number is limited, as are the partitions of all consumers and of each follower. The cache is lost with the
    process: clients then begin with a full request.
    """

    def __init__(
        self,
        limits: SessionLimits,
        ids: RandomIds,
        do: Callable[[Steps[None]], object] = at_once,
        room_of: Callable[[int], int] = _any_number,
    ) -> None:
        """`do` runs the steps that close a session.

        `room_of` returns the maximum number of partitions of all sessions of a follower, by its broker id.
        """
        self._do = do
        self._room_of = room_of
        self._of_followers: dict[int, int] = {}
        """Number of partitions in followers' sessions, by broker id."""
        self._slots = limits.max_incremental_fetch_session_cache_slots
        self._partitions_left = limits.sluicegate_fetch_session_partitions_max
        self._ids = ids
        self._sessions: dict[int, FetchSession] = {}
        self._no_room_until_s = float("-inf")

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def touch(self, session: FetchSession) -> None:
        """Record that a fetch session was used.

        If the session has grown beyond the limit, remove it and set its id to NO_SESSION.
        """
        del self._sessions[session.id]
        if len(session.partitions) == session.counted or self._count(session):
            self._sessions[session.id] = session
        else:
            self._forget_count(session)
            session.id = NO_SESSION

    def _count(self, session: FetchSession) -> bool:
        """Count the partitions of the session if the limit allows it. Returns whether it does."""
        more = len(session.partitions) - session.counted
        if session.is_followers:
            counted = self._of_followers.get(session.replica, 0) + more
            if more > 0 and counted > self._room_of(session.replica):
                return False
            self._of_followers[session.replica] = counted
            session.counted += more
            return True
        if more > self._partitions_left:
            return False
        self._partitions_left -= more
        session.counted += more
        return True

    def _forget_count(self, session: FetchSession) -> None:
        if not session.is_followers:
            self._partitions_left += session.counted
        elif (left := self._of_followers.get(session.replica, 0) - session.counted) > 0:
            self._of_followers[session.replica] = left
        else:
            self._of_followers.pop(session.replica, None)
        session.counted = 0

    def keep(self, session: FetchSession, now_s: float) -> bool:
        """Add the session and assign its id. Return False if the cache is full; then the client sends full requests.

        A follower uses one session with a broker, so its older sessions are removed if necessary.
        """
        while not self._count(session):
            older = self._older_of(session)
            if older is None:
                return False
            self.remove(older.id)
        if len(self._sessions) >= self._slots and not self._evict(session, now_s):
            self._forget_count(session)
            return False
        session.id = self._ids.randrange(1, 2**31)
        while session.id in self._sessions:
            session.id = self._ids.randrange(1, 2**31)
        self._sessions[session.id] = session
        return True

    def _older_of(self, session: FetchSession) -> FetchSession | None:
        """Return an older session of the same follower. None if removing it would not help."""
        if not session.is_followers or len(session.partitions) > self._room_of(session.replica):
            return None
        of_it = (each for each in self._sessions.values() if each.is_followers and each.replica == session.replica)
        return next((each for each in of_it if not each.is_busy), None)

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._forget_count(session)
            session.end_waiting()
            self._do(session.closing())

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
    """Whether the newcomer may evict the session.

    A young session may be evicted only if it is a consumer's and the newcomer is a follower. A session whose request
    runs in steps may not be evicted.
    """
    if session.is_busy:
        return False
    if now_s - session.created_s > _EVICTION_AGE_S:
        return True
    return newcomer.is_followers and not session.is_followers


def _weight(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_followers, len(session.partitions), session.id
