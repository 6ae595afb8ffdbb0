"""The requests that each `sluicegate groups` command sends to a cluster, in their order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sluicegate_operator.cli.asking.asking import RefusedError
from sluicegate_operator.cli.groups.group_report import GroupReport, relevant_partitions, report
from sluicegate_operator.cli.groups.offset_resets import (
    LogEnds,
    Reset,
    ResetError,
    ResetTarget,
    chosen_partitions,
    plan_resets,
)
from sluicegate_operator.kafka_admin.consumer_groups import ConsumerGroups
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, KafkaApiError
from sluicegate_operator.kafka_admin.groups.group_views import GroupView
from sluicegate_operator.kafka_admin.groups.offsets import EARLIEST, LATEST, NO_OFFSET
from sluicegate_operator.kafka_admin.views import Partition


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A request to reset committed offsets of a group.

    `topics` has the chosen partitions of each topic, None for all of them. Without topics, all committed offsets of the
    group are reset.
    """

    group_id: str
    topics: Mapping[str, tuple[int, ...] | None] | None
    target: ResetTarget


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The planned resets of a group's offsets.

    `is_new` is set if the group does not exist yet: committing its offsets creates the group.
    """

    resets: list[Reset]
    is_new: bool


async def reports(asked: ConsumerGroups, group_ids: Sequence[str]) -> dict[str, GroupReport | None]:
    """Return the reports of groups by name, None for a name without a group.

    Without names, return all groups, except those that are deleted meanwhile.
    """
    if group_ids:
        return {name: await _report(asked, name) for name in dict.fromkeys(group_ids)}
    found = {group.id: await _report(asked, group.id) for group in await asked.all()}
    return {name: one for name, one in found.items() if one is not None}


async def _report(asked: ConsumerGroups, group_id: str) -> GroupReport | None:
    group = await asked.describe(group_id)
    committed = await asked.committed(group_id)
    if not group.exists and not committed:
        return None
    ends = await asked.log_offsets(relevant_partitions(group, committed), LATEST)
    return report(group, committed, ends)


async def planned(asked: ConsumerGroups, request: ResetRequest) -> ResetPlan:
    """Return the planned resets of a group. Raises ResetError for wrong use, RefusedError for a group with members."""
    group = await asked.describe(request.group_id)
    _refuse_active(group)
    committed = await asked.committed(request.group_id)
    if request.topics is None:
        partitions = sorted(committed)
        if not partitions:
            raise ResetError(
                f"--all-topics: group {request.group_id} has no committed offsets; name topics with --topic"
            )
    else:
        partitions = chosen_partitions(request.topics, await asked.partitions_of(request.topics))
    resets = plan_resets(request.target, committed, await _log_ends(asked, partitions, request.target.time_ms))
    return ResetPlan(resets, is_new=not group.exists and not committed)


async def executed(asked: ConsumerGroups, group_id: str, resets: Sequence[Reset]) -> None:
    """Commit the new offsets of a group. Raises RefusedError with the resets that the coordinator has refused."""
    refused = await asked.commit(group_id, {(reset.topic, reset.partition): reset.after for reset in resets})
    if refused:
        # A member that joined after the plan was made.
        _refuse_active(await asked.describe(group_id))
        shown = ", ".join(f"{topic}-{index} ({error})" for (topic, index), error in sorted(refused.items()))
        raise RefusedError(f"the coordinator of {group_id} refused the offsets of {shown}")


async def deleted(asked: ConsumerGroups, group_ids: Sequence[str]) -> dict[str, str]:
    """Delete groups of consumers. Return for each group why the group was not deleted, or an empty text."""
    return {group_id: await _deleted(asked, group_id) for group_id in dict.fromkeys(group_ids)}


async def _deleted(asked: ConsumerGroups, group_id: str) -> str:
    try:
        await asked.delete(group_id)
    except KafkaApiError as error:
        match error.name:
            case "GROUP_ID_NOT_FOUND":
                return "the group does not exist"
            case "NON_EMPTY_GROUP":
                return "the group has members; stop them first"
        return str(error)
    except KafkaAdminError as error:
        return str(error)
    return ""


def _refuse_active(group: GroupView) -> None:
    if not group.is_empty:
        clients = ", ".join(sorted({member.client_id for member in group.members})) or "members that are still joining"
        raise RefusedError(
            f"group {group.id} is {group.state} with members ({clients}), which would continue from their own"
            " offsets: stop them first"
        )


async def _log_ends(
    asked: ConsumerGroups, partitions: Collection[Partition], time_ms: int | None
) -> dict[Partition, LogEnds]:
    earliest = await asked.log_offsets(partitions, EARLIEST)
    latest = await asked.log_offsets(partitions, LATEST)
    at_time = {} if time_ms is None else await asked.log_offsets(partitions, time_ms)
    if silent := sorted(
        set(partitions) - (set(earliest) & set(latest) & set(at_time if time_ms is not None else latest))
    ):
        topic, index = silent[0]
        raise RefusedError(f"{topic}-{index} has no leader that answers, or was deleted; nothing was changed")
    return {
        partition: LogEnds(
            earliest[partition],
            latest[partition],
            None if at_time.get(partition, NO_OFFSET) == NO_OFFSET else at_time[partition],
        )
        for partition in partitions
    }
