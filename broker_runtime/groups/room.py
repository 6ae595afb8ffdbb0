"""How many groups a coordinator takes: whoever brings one more is refused, and those that are there stay. Pure."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.state import GroupsState


def check_room_for_group(state: GroupsState, environment: GroupEnvironment, group_id: str) -> None:
    """Raises KafkaError (GROUP_MAX_SIZE_REACHED) where the group is not there and would be one too many.

    Clients give up on that error and say it. On COORDINATOR_NOT_AVAILABLE they would ask again for ever without a word,
    all of them, though no coordinator is going to have room by itself.
    """
    most = environment.config.sluicegate_group_coordinator_groups_max
    if len(state.groups) >= most and group_id not in state.groups:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"the coordinator of group {group_id[:100]!r} has {len(state.groups)} groups, and takes {most} "
            "(sluicegate.group.coordinator.groups.max)",
        )
