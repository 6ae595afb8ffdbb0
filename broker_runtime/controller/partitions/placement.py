"""Place the replicas of a partition on brokers. Pure; KIP-36 for racks, KIP-631 for fenced brokers.

Leaders are placed round robin over the live brokers, alternating racks. A follower goes to a rack without a replica of
the partition, then to a broker that is not fenced, then to one with the fewest replicas so far. So replicas are spread
evenly, and after a failure leaders are, too. Brokers in controlled shutdown get nothing. A manual assignment is checked
and used unchanged.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps


def place(partitions: int, replication_factor: int, image: MetadataImage, start: int) -> Steps[list[tuple[int, ...]]]:
    """Return the replicas of each new partition, the leader first.

    `start` spreads topics over brokers: any number is valid.
    """
    usable = [b for b in image.brokers.values() if b.stopping_offset is None]
    live = _rack_by_rack([b for b in usable if not b.fenced])
    _check(replication_factor, len(usable), bool(live))
    everyone = live + _rack_by_rack([b for b in usable if b.fenced])
    spread = _Spread([live[(start + number) % len(live)] for number in range(partitions)])
    turns = {broker.id: turn for turn, broker in enumerate(everyone)}
    placed = []
    for leader in spread.leaders:
        turn = turns[leader.id]
        placed.append(spread.replicas(leader, [*everyone[turn + 1 :], *everyone[:turn]], replication_factor))
        yield
    return placed


def check_assignment(replicas: Sequence[int], image: MetadataImage, replication_factor: int | None) -> None:
    """Check that `replicas` can store a partition of a topic with `replication_factor` replicas each.

    Raises KafkaError.
    """
    problem = _assignment_problem(replicas, image, replication_factor)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _assignment_problem(replicas: Sequence[int], image: MetadataImage, replication_factor: int | None) -> str | None:
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    previous = None
    for replica in sorted(replicas):
        if replica not in image.brokers:
            return f"The manual partition assignment includes broker {replica}, but no such broker is registered."
        if replica == previous:
            return f"The manual partition assignment includes the broker {replica} more than once."
        previous = replica
    if replication_factor is not None and len(replicas) != replication_factor:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def _check(replication_factor: int, usable: int, any_live: bool) -> None:
    why = None
    if not any_live:
        why = "All brokers are currently fenced."
    elif replication_factor > usable:
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only {usable} "
            "broker(s) are registered."
        )
    if why is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {why}",
        )


def _rack_by_rack(brokers: Sequence[BrokerInfo]) -> list[BrokerInfo]:
    """Return the brokers such that neighbours are on different racks where possible."""
    racks: dict[str | None, list[BrokerInfo]] = {}
    for broker in sorted(brokers, key=lambda b: b.id):
        racks.setdefault(broker.rack, []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks, key=lambda rack: (rack is not None, rack or ""))))
    return [broker for turn in rounds for broker in turn if broker is not None]


class _Spread:
    """Replicas that each broker has got so far of the partitions that are placed together."""

    def __init__(self, leaders: Sequence[BrokerInfo]) -> None:
        self.leaders = leaders
        self._replicas = Counter(broker.id for broker in leaders)
        self._next: Counter[tuple[int, int]] = Counter()

    def replicas(self, leader: BrokerInfo, others: Sequence[BrokerInfo], count: int) -> tuple[int, ...]:
        """Return the replicas; the order of `others` decides between equals. Without a rack every broker is its own."""
        followers: list[BrokerInfo] = []
        rest = list(others)
        while len(followers) < count - 1:
            racks = {b.rack for b in (leader, *followers) if b.rack is not None}
            best = min(
                rest, key=lambda b: (b.rack in racks, b.fenced, self._replicas[b.id], self._next[leader.id, b.id])
            )
            followers.append(best)
            rest.remove(best)
        self._replicas.update(b.id for b in followers)
        # The first follower leads when the leader fails: it should differ between the leader's partitions.
        followers.sort(key=lambda b: (b.fenced, self._next[leader.id, b.id]))
        self._next.update((leader.id, b.id) for b in followers[:1])
        return (leader.id, *(b.id for b in followers))
