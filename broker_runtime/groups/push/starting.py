"""The partitions that a consumer gets with StartFetcher, and their start offsets. Pure."""

from collections.abc import Iterator, Mapping
from uuid import UUID

from broker_runtime.groups.push.registration import SMALLEST
from broker_runtime.groups.push.state.calls import EARLIEST, LATEST, StartAt, StartFetcher
from broker_runtime.groups.push.state.log_ends import Partition
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.push.state.ownership import Plan
from broker_runtime.groups.records import Assignment, OffsetCommitValue

Committed = Mapping[tuple[str, int], OffsetCommitValue]


def start_of(member: PushMember, planned: Plan, committed: Committed) -> StartFetcher:
    """Return the consumer's StartFetcher. Threads without partitions are left out, as in the protocol draft."""
    without = EARLIEST if member.value.auto_offset_reset == SMALLEST else LATEST
    threads = planned.ownership[member.consumer_id].items()
    return StartFetcher(
        member.consumer_id,
        tuple(
            (thread_id, tuple(_parts(assignment, planned, committed, without)))
            for thread_id, assignment in threads
            if assignment
        ),
    )


def assigned_by(member: PushMember, planned: Plan) -> Mapping[Partition, UUID]:
    """Return the partitions, with topic ids, in the call that `start_of` returns."""
    return {
        (planned.names[topic_id], partition): topic_id
        for assignment in planned.ownership[member.consumer_id].values()
        for topic_id, partitions in assignment.items()
        for partition in partitions
    }


def _parts(assignment: Assignment, planned: Plan, committed: Committed, without: int) -> Iterator[StartAt]:
    for topic_id, partitions in assignment.items():
        name = planned.names[topic_id]
        for partition in partitions:
            value = committed.get((name, partition))
            known = value if value is not None and value.is_of(topic_id) else None
            yield StartAt(name, partition, without if known is None else known.offset)
