"""What a follower has asked one leader for, so that its next fetch names only what is different: KIP-227. Pure.

A replica whose position the leader knows, and that nothing has happened to, is not looked at: its log tells when it
changes. All others are in `to_look`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.replication.fetch_messages import Wanted
from broker_runtime.replication.follower import FollowerReplica

NO_SESSION = 0
_FULL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1
_NAMED_MAX = 250
"""Partitions that one request adds to a session or changes in it, so that neither side has too long a turn."""

_Key = tuple[UUID, int]


class SessionRequest(NamedTuple):
    """What the next fetch names, and what it takes out of the session."""

    session: tuple[int, int]
    """Its id and epoch."""
    wanted: Sequence[Wanted]
    forgotten: Sequence[_Key]
    has_more: bool
    """Whether there may be more to name in the next one, so that this one is not to wait."""

    @property
    def is_incremental(self) -> bool:
        return self.session[1] != _FULL_EPOCH


class FollowerSession:
    """The replicas that are fetched from one leader, and the session there.

    A request that was not answered, or an answer that was not taken over in full, leaves the two sides apart: then it
    begins again with a full request, which names the session that was, so that the leader ends it.
    """

    def __init__(self) -> None:
        self.to_look: dict[FollowerReplica, None] = {}
        self._replicas: dict[_Key, FollowerReplica] = {}
        self._asked: dict[_Key, Wanted] = {}
        """As the leader has it."""
        self._forgotten: set[_Key] = set()
        self._id = NO_SESSION
        self._epoch = _FULL_EPOCH
        self._is_under_way = False
        self._is_kept = True
        """Whether the leader has room for a session, as far as is known: without one each request names everything."""

    def __len__(self) -> int:
        return len(self._replicas)

    def follow(self, replica: FollowerReplica) -> None:
        key = replica.topic_id, replica.index
        before = self._replicas.get(key)
        if before is not None:
            self.to_look.pop(before, None)
        self._replicas[key] = replica
        # A request that names it and forgets it at once would end with it forgotten.
        self._forgotten.discard(key)
        replica.on_change = self.look_at
        self.look_at(replica)

    def forget(self, topic_id: UUID, index: int) -> None:
        replica = self._replicas.pop((topic_id, index), None)
        if replica is not None:
            replica.on_change = None
            self.to_look.pop(replica, None)
            self._leave_out((topic_id, index))

    def get(self, topic_id: UUID, index: int) -> FollowerReplica | None:
        return self._replicas.get((topic_id, index))

    def holds(self, replica: FollowerReplica) -> bool:
        """Whether it is still the same: metadata may have changed while an answer was under way."""
        return self._replicas.get((replica.topic_id, replica.index)) is replica

    def look_at(self, replica: FollowerReplica) -> None:
        self.to_look[replica] = None

    def _leave_out(self, key: _Key) -> None:
        if self._asked.pop(key, None) is not None:
            self._forgotten.add(key)

    def start_over(self) -> None:
        self._epoch = _FULL_EPOCH
        self._asked.clear()
        self._forgotten.clear()
        self.to_look = dict.fromkeys(self._replicas.values())

    def next_request(self, now_s: float) -> SessionRequest | None:
        """None when there is nothing to ask for."""
        if self._is_under_way or not self._is_kept:
            self.start_over()
        wanted = list(self._newly_wanted(now_s))
        if not self._asked:
            return None
        self._is_under_way = True
        forgotten = sorted(self._forgotten)
        self._forgotten.clear()
        has_more = len(wanted) == _NAMED_MAX and self._is_kept
        return SessionRequest((self._id, self._epoch), sorted(wanted), forgotten, has_more)

    def _newly_wanted(self, now_s: float) -> Iterator[Wanted]:
        named = 0
        for replica in list(self.to_look):
            key = replica.topic_id, replica.index
            if not replica.is_ready(now_s):
                self._leave_out(key)
                continue
            log = replica.log
            wanted = Wanted(*key, replica.leader_epoch, log.log_end_offset, log.log_start_offset)
            if self._asked.get(key) != wanted:
                if named >= _NAMED_MAX and self._is_kept:
                    return
                named += 1
                self._asked[key] = wanted
                self._forgotten.discard(key)
                yield wanted
            del self.to_look[replica]
            log.followers.add(replica)

    def answered(self, session_id: int) -> None:
        """The answer was taken over in full."""
        self._is_under_way = False
        self._is_kept = session_id != NO_SESSION
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
