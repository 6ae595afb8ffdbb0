"""The follower's side of a fetch session with one leader: the next fetch names only what has changed (KIP-227). Pure.

A replica whose position the leader knows, and that has not changed, is not checked: its log notifies the session of
changes. All others are in `to_look`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.replication.following.fetch_messages import FetchedPartition
from broker_runtime.replication.following.follower import FollowerReplica

NO_SESSION = 0
_FULL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1
_NAMED_MAX = 250
"""Limit of the partitions that one request adds or changes, so that neither side blocks its event loop long."""

_Key = tuple[UUID, int]


class SessionRequest(NamedTuple):
    """A fetch to send: the partitions that it names, and those that it removes from the session."""

    session: tuple[int, int]
    """Id and epoch of the fetch session."""
    wanted: Sequence[FetchedPartition]
    forgotten: Sequence[_Key]
    has_more: bool
    """Whether the next request may have more partitions to name, so that the leader must not delay this one."""

    @property
    def is_incremental(self) -> bool:
        return self.session[1] != _FULL_EPOCH


class FollowerSession:
    """The replicas that are fetched from one leader, and the fetch session there.

    If a request was not answered or its response was not processed completely, follower and leader may disagree about
    the session. Then the follower begins again with a full request, which names the old session, so that the leader
    ends it.
    """

    def __init__(self) -> None:
        self.to_look: dict[FollowerReplica, None] = {}
        self._replicas: dict[_Key, FollowerReplica] = {}
        self._asked: dict[_Key, FetchedPartition] = {}
        """The positions that the leader has."""
        self._forgotten: set[_Key] = set()
        self._id = NO_SESSION
        self._epoch = _FULL_EPOCH
        self._is_under_way = False
        self._is_kept = True
        """Whether the leader had room for the session last time; without a session each request names everything."""

    def __len__(self) -> int:
        return len(self._replicas)

    def follow(self, replica: FollowerReplica) -> None:
        key = replica.topic_id, replica.index
        before = self._replicas.get(key)
        if before is not None:
            self.to_look.pop(before, None)
        self._replicas[key] = replica
        # A request that both names and forgets it would leave it forgotten.
        self._forgotten.discard(key)
        replica.on_change = self.check
        self.check(replica)

    def forget(self, topic_id: UUID, index: int) -> None:
        replica = self._replicas.pop((topic_id, index), None)
        if replica is not None:
            replica.on_change = None
            self.to_look.pop(replica, None)
            self._leave_out((topic_id, index))

    def get(self, topic_id: UUID, index: int) -> FollowerReplica | None:
        return self._replicas.get((topic_id, index))

    def holds(self, replica: FollowerReplica) -> bool:
        """Return whether the replica is still in the session.

        Metadata may have changed while a response was under way.
        """
        return self._replicas.get((replica.topic_id, replica.index)) is replica

    def check(self, replica: FollowerReplica) -> None:
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
        """Return the next request; None when there is nothing to fetch."""
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

    def _newly_wanted(self, now_s: float) -> Iterator[FetchedPartition]:
        named = 0
        for replica in list(self.to_look):
            key = replica.topic_id, replica.index
            if not replica.is_ready(now_s):
                self._leave_out(key)
                continue
            log = replica.log
            wanted = FetchedPartition(*key, replica.leader_epoch, log.log_end_offset, log.log_start_offset)
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
        """Record that the response of session `session_id` was processed completely."""
        self._is_under_way = False
        self._is_kept = session_id != NO_SESSION
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
