"""Work for push groups that no request triggers: after a load, and when topics change. Pure."""

from collections.abc import Collection, Iterator

from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.group import Group
from broker_runtime.groups.push.pings import await_return
from broker_runtime.groups.push.rebalance import want_rebalance
from broker_runtime.groups.push.state.calls import PushEnvironment
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, each, gathered


def loaded(state: GroupsState, environment: PushEnvironment) -> None:
    """Let all consumers in the log register again after a load.

    Consumers that do not register are removed after some time.
    """
    groups = [group for group in state.groups.values() if isinstance(group, PushGroup)]
    for group in groups:
        group.state = PushState.GATHERING
        group.missing = set(group.members)

    def begin(found: tuple[PushGroup, PushMember]) -> None:
        group, member = found
        if group.members.get(member.consumer_id) is member and member.connection is None:
            await_return(group, environment, member)

    in_portions("", environment, _members(groups), begin)


def _members(groups: list[PushGroup]) -> Iterator[tuple[PushGroup, PushMember]]:
    for group in groups:
        for member in list(group.members.values()):
            yield group, member


def connections(state: GroupsState) -> Iterator[int]:
    """Yield the connections of all consumers that have registered with this broker."""
    for group in state.groups.values():
        if isinstance(group, PushGroup):
            for member in group.members.values():
                if member.connection is not None:
                    yield member.connection


def on_topics_changed(state: GroupsState, environment: PushEnvironment, changed: Collection[str]) -> Steps[None]:
    """Check whether groups that read, or may read, changed topics must rebalance.

    Topics may be created, deleted or resized.
    """
    names = yield from gathered(changed)

    def check_again(group: Group) -> None:
        if isinstance(group, PushGroup) and group.may_read(names):
            want_rebalance(group, environment)

    yield from each(state.groups.values(), check_again)
