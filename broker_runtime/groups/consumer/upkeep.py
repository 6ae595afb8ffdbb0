"""What the coordinator does for its groups without being asked: after a load, and when topics change. Pure."""

from collections.abc import Iterable

from broker_runtime.groups.consumer.fencing import arm_rebalance, arm_session
from broker_runtime.groups.consumer.group import ConsumerGroup
from broker_runtime.groups.consumer.member import MemberState
from broker_runtime.groups.consumer.target import assign_soon
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.state import GroupsState


def loaded(state: GroupsState, environment: GroupEnvironment) -> None:
    """The state was read from the log: all members have their whole session again, as nobody knows what they had."""
    for group in state.groups.values():
        if not isinstance(group, ConsumerGroup):
            continue
        for member in group.members.values():
            arm_session(group.group_id, member, environment)
            if member.current.state == MemberState.UNREVOKED_PARTITIONS and not member.speaks_classic:
                arm_rebalance(group.group_id, member, environment)
        if group.epoch > group.assignment_epoch:
            assign_soon(group, environment)


def on_topics_changed(state: GroupsState, topics: Iterable[str]) -> None:
    """Topics came, went, or have other partitions: groups that read them, or may, look again at the next heartbeat."""
    changed = tuple(topics)
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            group.regexes_stale = True
            for name in changed:
                group.topic_facts.pop(name, None)
                group.metadata_stale = group.metadata_stale or group.is_subscribed_to(name)
