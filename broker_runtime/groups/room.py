"""The limit on the number of groups of a coordinator: a new group beyond it is refused, existing ones stay. Pure."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.state import GroupsState


def check_room_for_group(state: GroupsState, environment: GroupEnvironment, group_id: str) -> None:
    """Raise KafkaError (GROUP_MAX_SIZE_REACHED) if the group is new and there is no room for another group.

    Clients give up on this error and report it. On COORDINATOR_NOT_AVAILABLE all of them would retry forever without a
    message, although retries do not make room on the coordinator.
    """
    most = environment.config.sluicegate_group_coordinator_groups_max
    if len(state.groups) >= most and group_id not in state.groups:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"the coordinator of group {group_id[:100]!r} has {len(state.groups)} groups; at most {most} are "
            "allowed (sluicegate.group.coordinator.groups.max)",
        )
