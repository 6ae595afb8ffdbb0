"""Work for consumer groups that no request triggers: after a load, and when topics change. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.consumer.downgrading import downgrade_soon
from broker_runtime.groups.consumer.fencing import arm_rebalance, arm_session
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import MemberState
from broker_runtime.groups.consumer.target import assign_soon
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, chosen, gathered, listed


def loaded(state: GroupsState, environment: GroupEnvironment) -> None:
    """Start the sessions of all members from the beginning after a load, because remaining times are not known.

    Also continue assignments and downgrades that are due.
    """
    groups = [group for group in state.groups.values() if isinstance(group, ConsumerGroup)]

    def begin(found: tuple[ConsumerGroup, str]) -> None:
        group, member_id = found
        member = group.members.get(member_id)
        if member is None or state.groups.get(group.group_id) is not group:
            return
        arm_session(group.group_id, member, environment)
        if member.current.state == MemberState.UNREVOKED_PARTITIONS and not member.speaks_classic:
            arm_rebalance(group.group_id, member, environment)

    in_portions("", environment, _members(groups), begin)
    for group in groups:
        if group.epoch > group.assignment_epoch:
            assign_soon(group, environment)
        if group.subscriptions.classic_members == len(group.members) > 0:
            downgrade_soon(group.group_id, environment)


def _members(groups: Iterable[ConsumerGroup]) -> Iterator[tuple[ConsumerGroup, str]]:
    for group in groups:
        for member_id in list(group.members):
            yield group, member_id


def on_topics_changed(state: GroupsState, topics: Iterable[str]) -> Steps[None]:
    """Let groups that read, or may match, changed topics check them again at the next heartbeat.

    Topics may be created, deleted or resized. The cost for a group depends only on the smaller of its own number of
    topics and the number of changed ones.
    """
    changed = yield from gathered(topics)
    for group in (yield from chosen(state.groups.values(), lambda group: isinstance(group, ConsumerGroup))):
        assert isinstance(group, ConsumerGroup)
        group.regexes_stale = True
        yield
        known = group.topic_facts
        forgotten = yield from _common(known, changed)
        yield from listed(map(known.__delitem__, forgotten))
        reads_some = yield from _common(group.subscriptions.topics, changed)
        group.metadata_stale = group.metadata_stale or bool(reads_some)


def _common(known: Mapping[str, object], changed: set[str]) -> Steps[list[str]]:
    """Return the names in both. Reads the shorter of the two."""
    if len(known) < len(changed):
        return (yield from chosen(known, changed.__contains__))
    return (yield from chosen(changed, known.__contains__))
