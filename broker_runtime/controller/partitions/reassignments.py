"""Move a partition to other brokers (KIP-455): begin, replace and cancel reassignments.

Pure. A reassignment adds the new replicas to the old ones. When all added ones are in sync,
`elections.changed_partition` removes the old ones. The target order comes first, so the preferred leader is the
target's from the beginning. A reassignment that replaces another starts from the replicas that the partition had before
either.
"""

from collections.abc import Sequence
from dataclasses import replace

from broker_runtime.controller.partitions.elections import candidates, changed_partition
from broker_runtime.controller.partitions.placement import check_assignment
from broker_runtime.errors import ErrorCode, KafkaError, quoted
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord


def reassign(
    name: str, index: int, target: Sequence[int] | None, image: MetadataImage, *, keep_factor: bool = False
) -> Sequence[MetadataRecord]:
    """Return the records that begin a reassignment to `target`, or cancel the current one if `target` is None.

    If nothing changes, return no records. Raises KafkaError.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {quoted(name)}.")
    part = topic.partitions.get(index)
    if part is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {quoted(name)}:{index}.")
    rules = candidates(name, image)
    if target is None:
        wanted = _cancelled(name, index, part, rules.unclean)
    else:
        check_assignment(target, image, None)
        if keep_factor:
            _check_factor(part, target)
        wanted = _begun(name, index, part, target)
    new = changed_partition(part, wanted, rules)
    return () if new is part else (new.record(topic.id, index),)


def is_under_way(part: Partition) -> bool:
    """Return whether a reassignment of the partition is in progress."""
    return bool(part.adding or part.removing)


def _origin(part: Partition) -> tuple[int, ...]:
    """Return the replicas before the current reassignment, if there is one."""
    return tuple(r for r in part.replicas if r not in part.adding)


def _check_factor(part: Partition, target: Sequence[int]) -> None:
    """Check the replication factor (KIP-860). A partition that is being moved counts with its future factor."""
    factor = len(part.replicas) - len(part.removing)
    if len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def _begun(name: str, index: int, part: Partition, target: Sequence[int]) -> Partition:
    origin = _origin(part)
    adding = tuple(r for r in target if r not in origin)
    removing = tuple(r for r in origin if r not in target)
    replicas = (*target, *removing)
    isr = tuple(r for r in part.isr if r in replicas)
    if not isr and not set(part.elr) & set(replicas):
        # Only a replica that the previous reassignment added has every record, and the new target omits it.
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to replace the reassignment of {name}:{index}: no replica of the new one is in sync. Include "
            f"one of {[*part.isr, *part.elr]}.",
        )
    return replace(part, replicas=replicas, isr=isr, adding=adding, removing=removing)


def _cancelled(name: str, index: int, part: Partition, unclean: bool) -> Partition:
    if not part.adding and not part.removing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = _origin(part)
    isr = tuple(r for r in part.isr if r in replicas)
    if not isr and not set(part.elr) & set(replicas):
        if not unclean:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {name}:{index} because it would require an unclean "
                "leader election.",
            )
        isr = replicas[:1]
    return replace(part, replicas=replicas, isr=isr, adding=(), removing=())
