"""A partition on its leader: followers' progress, the in-sync set, the high watermark.

Pure: time is an argument.

- The high watermark is the least log end of all replicas that may be elected. These are the in-sync set and the
  eligible leader replicas that the controller has committed, and a follower whose addition is pending. A removal counts
  only once the metadata log has it, together with the new eligible replicas. So every acknowledged record is on any
  leader that may be elected (KIP-497, KIP-966). An eligible replica that is away has acknowledged nothing, so the high
  watermark does not move. Apache Kafka's does not move while fewer than min.insync.replicas are in sync. Here it
  depends on the controller's record, so that leader and controller need not agree about that number.
- A follower is in sync while it has been at the leader's log end within replica.lag.time.max.ms (KIP-16).
- Progress belongs to one incarnation of a follower (KIP-903): after a new broker epoch it is unknown.
- The high watermark does not pass a damaged range that this leader wrote and the others do not have. Such records
  cannot be replicated: the leader hands over to another member of the in-sync set, and cuts them as its follower
  (decision 46).
- The low watermark is the least log start of the leader and of all live followers (KIP-107), and of absent ones that
  may be elected: the next leader serves nothing below it. A follower sends its log start with each fetch, and joins
  once it has the leader's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.storage.disk.waiters import OffsetWaiters
from broker_runtime.storage.log.log import Log

UNKNOWN = -1


@dataclass(slots=True)
class Follower:
    """The state of a follower, kept by its leader.

    `end_offset` is the offset of the follower's last fetch: the follower has all records below.
    """

    broker_epoch: int
    end_offset: int = UNKNOWN
    caught_up_s: float = float("-inf")
    """Time when the follower last had all of the leader's records, in seconds of the monotonic clock."""
    asked_s: float = float("-inf")
    leader_end_then: int = UNKNOWN
    log_start: int = UNKNOWN
    lives: bool = True
    """Whether the follower's broker is registered and not fenced."""


@dataclass(frozen=True, slots=True)
class PendingIsrChange:
    """An in-sync set that was requested from the controller.

    `epochs` are the broker epochs of its members.
    """

    isr: tuple[int, ...]
    epochs: Mapping[int, int]
    partition_epoch: int


class LeaderReplica:
    """A partition that this broker leads.

    The log is durable; the followers' state is rebuilt when this broker becomes the leader.
    """

    __slots__ = (
        "_deletions",
        "elr",
        "followers",
        "hands_over",
        "index",
        "isr",
        "leader_epoch",
        "log",
        "me",
        "partition_epoch",
        "pending",
        "replicas",
        "start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, me: int, topic: str, topic_id: UUID, index: int, log: Log) -> None:
        self.topic, self.topic_id, self.index, self.log = topic, topic_id, index, log
        self.leader_epoch = self.partition_epoch = UNKNOWN
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.elr: tuple[int, ...] = ()
        self.pending: PendingIsrChange | None = None
        self.start_offset = log.log_end_offset
        """Log end when this broker became the leader: records below it may be of earlier leaders."""
        self.me = me
        self.hands_over = False
        """Whether another broker is to lead: the damage here cannot be mended while this broker leads."""
        self.followers: dict[int, Follower] = {}
        """Followers by broker id; only this class changes them."""
        self._deletions = OffsetWaiters(log.place.wakes)
        log.on_counted = self.advance

    def update(self, part: Partition, brokers: Mapping[int, BrokerInfo], now_s: float) -> None:
        """Apply a newer state of the partition. This broker still leads the partition in that state."""
        if part.leader_epoch > self.leader_epoch:
            self.leader_epoch = part.leader_epoch
            self.start_offset = self.log.log_end_offset
            self.pending = None
            self.hands_over = False
            self.followers = {}
            self._epoch_is_over()
        if part.partition_epoch > self.partition_epoch:
            self.partition_epoch = part.partition_epoch
            self.replicas, self.isr, self.elr = part.replicas, part.isr, part.elr
            self.pending = None
        self.follow_brokers(brokers, now_s)
        self._set_sole()
        self.advance()

    def follow_brokers(self, brokers: Mapping[int, BrokerInfo], now_s: float) -> None:
        """Reset the state of followers whose broker was replaced, and add new followers."""
        known, self.followers = self.followers, {}
        is_one_unknown = False
        for replica in self.replicas:
            if replica == self.me:
                continue
            epoch = brokers[replica].epoch if replica in brokers else UNKNOWN
            follower = known.get(replica)
            if follower is None or follower.broker_epoch != epoch:
                follower = Follower(epoch)
                is_one_unknown = True
                if replica in self.isr:
                    # The follower gets the whole time that followers have before they are removed from the set.
                    follower.caught_up_s = now_s
            follower.lives = replica in brokers and not brokers[replica].fenced
            self.followers[replica] = follower
        self._wake_deletions()
        if is_one_unknown:
            # In a fetch session a follower sends its position only once: make the session report it again.
            self.log.followers.notify_at_once()

    @property
    def is_under_min_isr(self) -> bool:
        """Return whether too few replicas are in sync to accept writes: fewer than min.insync.replicas (KIP-966).

        A partition with fewer replicas than min.insync.replicas needs all of its replicas in sync.
        """
        return len(self.isr) < min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def _electable(self) -> tuple[int, ...]:
        """The replicas that the controller may elect next, as far as this broker can know."""
        asked = () if self.pending is None else self.pending.isr
        return tuple(dict.fromkeys((*self.isr, *self.elr, *asked)))

    def _set_sole(self) -> None:
        self.log.sole_replica = self._electable == (self.me,) and unshared_damage(self) is None

    def damage_changed(self) -> None:
        """Apply a change of the log's damaged ranges: some were found or mended."""
        self._set_sole()
        self.advance()

    def on_fetch(self, replica: int, broker_epoch: int, offset: int, now_s: float, log_start: int = UNKNOWN) -> None:
        """Record a fetch from `offset`: the follower has all records below.

        Raises KafkaError for a broker that is not a follower, or has another epoch. `broker_epoch` and `log_start` are
        -1 in versions of the request that lack them.
        """
        follower = self.followers.get(replica)
        if follower is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica} is not a follower of {self.topic}-{self.index}"
            )
        if broker_epoch not in (UNKNOWN, follower.broker_epoch):
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"broker {replica} has epoch {follower.broker_epoch}, not {broker_epoch}"
            )
        end = self.log.log_end_offset
        if offset >= end:
            follower.caught_up_s = now_s
        elif offset >= follower.leader_end_then:
            follower.caught_up_s = max(follower.caught_up_s, follower.asked_s)
        follower.asked_s, follower.leader_end_then = now_s, end
        if offset != follower.end_offset:
            follower.end_offset = offset
            self.advance()
        if log_start != follower.log_start:
            follower.log_start = log_start
            self._wake_deletions()

    def was_caught_up(self, replica: int, broker_epoch: int, offset: int, at_s: float) -> None:
        """Record that a follower's fetch session had nothing after `offset` until now, and last fetched at `at_s`.

        Requests of a session leave out unchanged partitions. Without this record, the follower of an idle partition
        would look as if it had not fetched since the last record.
        """
        follower = self.followers.get(replica)
        if follower is None or follower.end_offset != offset or broker_epoch not in (UNKNOWN, follower.broker_epoch):
            return
        follower.caught_up_s = max(follower.caught_up_s, at_s)
        follower.asked_s = max(follower.asked_s, at_s)

    def advance(self) -> None:
        """Raise the high watermark to the least end of all electable replicas, including this broker's synced end."""
        least = self.log.counted_end
        for replica in self._electable:
            if replica != self.me:
                follower = self.followers.get(replica)
                least = min(least, UNKNOWN if follower is None else follower.end_offset)
        damaged = unshared_damage(self)
        if damaged is not None:
            least = min(least, damaged)
        if least > self.log.high_watermark:
            self.log.advance_high_watermark(least)

    @property
    def low_watermark(self) -> int:
        """Return the offset below which no live or electable replica serves records.

        The value is -1 until all these replicas have sent their log start.
        """
        electable = self._electable
        starts = (f.log_start for replica, f in self.followers.items() if f.lives or replica in electable)
        return min((self.log.log_start_offset, *starts))

    def _wake_deletions(self) -> None:
        if self._deletions.waiting:
            self._deletions.wake(self.low_watermark + 1)

    def begin(self, change: PendingIsrChange) -> None:
        """Record an in-sync set that was requested from the controller.

        From now on, records are acknowledged only when every replica of the old and the new set has them.
        """
        self.pending = change
        self._set_sole()

    def refused(self) -> None:
        """Drop the pending change after the controller has rejected it."""
        self.pending = None
        # The response may come after this broker became a follower: then it must not move the high watermark.
        if self.leader_epoch != UNKNOWN:
            self._set_sole()
            self.advance()

    def wait_for_deletion(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when the low watermark reaches `offset`, or when the epoch ends.

        Returns a function that cancels the callback.
        """
        return self._deletions.add(offset, callback)

    def resign(self) -> None:
        """Stop leading the partition. Waiting requests are woken and find another leader epoch."""
        self.leader_epoch = UNKNOWN
        self.log.on_counted = None
        self.log.sole_replica = False
        self._epoch_is_over()

    def _epoch_is_over(self) -> None:
        """Wake all waiters at this leader, which then find another epoch or another leader."""
        self._deletions.wake_all()
        self.log.wake_waiting()


def unshared_damage(leader: LeaderReplica) -> int | None:
    """Return the first damaged offset that no other replica can have; None without such an offset."""
    offset = max(leader.start_offset, leader.log.high_watermark)
    damaged = leader.log.files.damage.first_from(offset)
    return None if damaged is None else max(damaged.first_offset, offset)
