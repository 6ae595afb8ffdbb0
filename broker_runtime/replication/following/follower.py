"""A partition on a follower, and where its log must be cut before it fetches from a new leader. Pure.

KIP-101 and KIP-279: the follower asks the leader where the follower's own latest epoch ends in the leader's log, and
cuts its log there. It asks again with an older epoch while the two know different ones. Nothing is fetched before that
is done, so two logs never differ below the offset where they continue.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.coordination.backoff import Backoff
from broker_runtime.storage.log.log import Log

UNKNOWN = -1


@dataclass(slots=True, eq=False)
class FollowerReplica:
    """A replica that follows a leader, and watches its own log between two fetches.

    Its state is lost with the process.
    """

    topic: str
    topic_id: UUID
    index: int
    log: Log
    leader: int
    leader_epoch: int
    backoff: Backoff
    truncated: bool = False
    """Whether the log is known to be a prefix of the leader's."""
    not_before_s: float = 0.0
    leader_lacks_it: bool = False
    """Whether the leader's log has the same damaged ranges: then this replica lacks none of the leader's records."""
    on_change: "Callable[[FollowerReplica], None] | None" = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_counted(self) -> bool:
        """Return whether all stored records count, so that the leader may receive the end offset."""
        return self.log.counted_end >= self.log.log_end_offset

    @property
    def waits_for_repair(self) -> bool:
        """Return whether the replica must be repaired before it may fetch.

        This is so if the log has damaged ranges, unless the leader's log has the same ones.
        """
        return not self.leader_lacks_it and self.log.is_damaged

    def is_ready(self, now_s: float) -> bool:
        """Return whether the next records may be requested from the leader."""
        return self.truncated and self.not_before_s <= now_s and self.is_counted and not self.waits_for_repair

    def changed(self) -> None:
        """Call `on_change`, because the log of this replica has changed. This implements `Watcher.changed`."""
        if self.on_change is not None:
            self.on_change(self)

    def high_watermark_moved(self) -> None:
        """Implement `Watcher.high_watermark_moved`: do nothing.

        The leader does not need a follower's high watermark.
        """

    def failed(self, now_s: float) -> None:
        """Pause the replica for a while, longer after each failure."""
        self.not_before_s = now_s + self.backoff.failed()


@dataclass(frozen=True, slots=True)
class Cut:
    """The offset from which on a follower has to cut its log.

    `final` is False when the leader must be asked once more.
    """

    offset: int
    final: bool


def cut_for(log: Log, leader_has_epoch: int, leader_ends_at: int) -> Cut:
    """Return the cut of a log, by the leader's response to OffsetForLeaderEpoch for the log's latest epoch."""
    if leader_ends_at < 0:
        # The leader knows neither that epoch nor earlier ones: only records that are certainly replicated may stay.
        return Cut(log.high_watermark, True)
    end = log.log_end_offset
    mine, mine_ends_at = log.end_offset_for_epoch(leader_has_epoch)
    if mine == UNKNOWN:
        return Cut(min(leader_ends_at, end), True)
    if mine != leader_has_epoch:
        return Cut(min(mine_ends_at, end), False)
    return Cut(min(mine_ends_at, leader_ends_at, end), True)
