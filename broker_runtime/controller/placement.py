"""Where the replicas of a partition go. Pure; KIP-36 for racks.

Leaders go round the live brokers, racks first; followers go to other racks while there are any, and may be placed on
fenced brokers. An assignment by hand is checked and taken as it is.
"""

from collections.abc import Sequence
from itertools import zip_longest

from broker_runtime.controller.image import BrokerInfo, MetadataImage
from broker_runtime.errors import ErrorCode, KafkaError

REPLICATION_FACTOR_MAX = 1
"""Until replication exists."""


def place(partitions: int, replication_factor: int, image: MetadataImage, start: int) -> list[tuple[int, ...]]:
    """Replicas of each new partition, the leader first. `start` spreads topics: any number will do."""
    brokers = list(image.brokers.values())
    live = _rack_by_rack([b for b in brokers if not b.fenced])
    _check(replication_factor, len(brokers), bool(live))
    everyone = live + _rack_by_rack([b for b in brokers if b.fenced])
    placed = []
    for number in range(partitions):
        leader = live[(start + number) % len(live)]
        turn = everyone.index(leader)
        others = [everyone[(turn + step) % len(everyone)] for step in range(1, len(everyone))]
        placed.append(_spread(leader, others, replication_factor))
    return placed


def check_assignment(replicas: Sequence[int], image: MetadataImage, replication_factor: int | None) -> None:
    """Raises KafkaError unless these replicas can hold a partition of a topic with this many replicas each."""
    problem = _assignment_problem(replicas, image, replication_factor)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if len(replicas) > REPLICATION_FACTOR_MAX:
        raise _not_replicated(len(replicas))


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


def _check(replication_factor: int, registered: int, any_live: bool) -> None:
    why = None
    if replication_factor > registered:
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only {registered} "
            "broker(s) are registered."
        )
    elif not any_live:
        why = "All brokers are currently fenced."
    if why is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {why}",
        )
    if replication_factor > REPLICATION_FACTOR_MAX:
        raise _not_replicated(replication_factor)


def _not_replicated(replication_factor: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Replication factor {replication_factor} is not supported yet: partitions have one replica until "
        "replication is implemented. Use 1.",
    )


def _rack_by_rack(brokers: Sequence[BrokerInfo]) -> list[BrokerInfo]:
    """Brokers such that neighbours are on different racks where possible."""
    racks: dict[str | None, list[BrokerInfo]] = {}
    for broker in sorted(brokers, key=lambda b: b.id):
        racks.setdefault(broker.rack, []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks, key=lambda rack: (rack is not None, rack or ""))))
    return [broker for turn in rounds for broker in turn if broker is not None]


def _spread(leader: BrokerInfo, others: Sequence[BrokerInfo], count: int) -> tuple[int, ...]:
    """Racks that have no replica yet come before racks that have one; without a rack every broker is its own."""
    chosen = [leader]
    rest = list(others)
    while len(chosen) < count:
        used = {b.rack for b in chosen if b.rack is not None}
        best = next((b for b in rest if b.rack not in used), rest[0])
        chosen.append(best)
        rest.remove(best)
    return tuple(b.id for b in chosen)
