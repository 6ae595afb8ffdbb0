"""A group with its members, its offsets and its lag, combined from several answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_operator.kafka_admin.groups.group_views import GroupView
from sluicegate_operator.kafka_admin.views import Partition


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of a group. `partitions` is the number of partitions assigned to it."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    partitions: int


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition of a group, with its offsets and its member.

    `committed` is None for an assigned partition without an offset, `log_end` for a partition that has no leader or is
    gone; `lag` needs both. `member_id` is None if the partition is not assigned.
    """

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag: int | None
    member_id: str | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The report about one group. `lag` is the sum of all known lags; None if no lag is known."""

    id: str
    state: str
    type: str
    protocol: str
    assignor: str
    epoch: int | None
    lag: int | None
    members: tuple[MemberRow, ...]
    offsets: tuple[OffsetRow, ...]


def relevant_partitions(group: GroupView, committed: Mapping[Partition, int]) -> set[Partition]:
    """Return the partitions of a group that are committed or assigned."""
    return set(committed) | {partition for member in group.members for partition in member.partitions}


def report(group: GroupView, committed: Mapping[Partition, int], ends: Mapping[Partition, int]) -> GroupReport:
    holders = {partition: member for member in group.members for partition in member.partitions}
    offsets = []
    for topic, index in sorted(relevant_partitions(group, committed)):
        at, end = committed.get((topic, index)), ends.get((topic, index))
        lag = None if at is None or end is None else max(0, end - at)
        holder = holders.get((topic, index))
        offsets.append(
            OffsetRow(
                topic,
                index,
                at,
                end,
                lag,
                holder.id if holder else None,
                holder.client_id if holder else None,
                holder.host if holder else None,
            )
        )
    known = [row.lag for row in offsets if row.lag is not None]
    return GroupReport(
        id=group.id,
        state=group.state,
        type=group.type,
        protocol=group.protocol_type,
        assignor=group.assignor,
        epoch=group.epoch,
        lag=None if offsets and not known else sum(known),
        members=tuple(
            MemberRow(
                member.id, member.instance_id, member.client_id, member.host, member.epoch, len(member.partitions)
            )
            for member in sorted(group.members, key=lambda member: (member.client_id, member.id))
        ),
        offsets=tuple(offsets),
    )
