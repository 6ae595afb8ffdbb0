"""Where the replicas of a partition go. Pure; KIP-36 for racks, KIP-631 for fenced brokers.

Leaders go round the live brokers, racks first. Followers go to racks that have no replica of the partition yet, then
to brokers that are not fenced, then to those that got least so far, so that replicas and, after a failure, leaders are
spread evenly. Brokers in controlled shutdown get nothing. An assignment by hand is checked and taken as it is.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from broker_runtime.controller.image import BrokerInfo, MetadataImage
from broker_runtime.errors import ErrorCode, KafkaError


def place(partitions: int, replication_factor: int, image: MetadataImage, start: int) -> list[tuple[int, ...]]:
    """Replicas of each new partition, the leader first. `start` spreads topics: any number will do."""
    usable = [b for b in image.brokers.values() if b.stopping_offset is None]
    live = _rack_by_rack([b for b in usable if not b.fenced])
    _check(replication_factor, len(usable), bool(live))
    everyone = live + _rack_by_rack([b for b in usable if b.fenced])
    loads = dict.fromkeys((b.id for b in everyone), 0)
    placed = []
    for number in range(partitions):
        turn, round_ = (start + number) % len(live), number // len(live)
        # Each round begins one broker later, so that what one broker leads is not all followed by the same others.
        first = turn + 1 + round_ % len(everyone)
        others = [
            b for step in range(len(everyone)) if (b := everyone[(first + step) % len(everyone)]) is not live[turn]
        ]
        chosen = _spread(live[turn], others, replication_factor, loads)
        for broker_id in chosen:
            loads[broker_id] += 1
        placed.append(chosen)
    return placed


def check_assignment(replicas: Sequence[int], image: MetadataImage, replication_factor: int | None) -> None:
    """Raises KafkaError unless these replicas can hold a partition of a topic with this many replicas each."""
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
    """Brokers such that neighbours are on different racks where possible."""
    racks: dict[str | None, list[BrokerInfo]] = {}
    for broker in sorted(brokers, key=lambda b: b.id):
        racks.setdefault(broker.rack, []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks, key=lambda rack: (rack is not None, rack or ""))))
    return [broker for turn in rounds for broker in turn if broker is not None]


def _spread(leader: BrokerInfo, others: Sequence[BrokerInfo], count: int, loads: Mapping[int, int]) -> tuple[int, ...]:
    """`others` in the order that decides between equals. Without a rack every broker is its own."""
    chosen = [leader]
    rest = list(others)
    while len(chosen) < count:
        used = {b.rack for b in chosen if b.rack is not None}
        best = min(rest, key=lambda b: (b.rack in used, b.fenced, loads[b.id]))
        chosen.append(best)
        rest.remove(best)
    return tuple(b.id for b in chosen)
