"""The first decisions of a coordinator that has just loaded its groups. Pure."""

from collections.abc import Iterable, Iterator

from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member, metadata_of
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.classic.reading import reading
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.state import GroupsState


def loaded(state: GroupsState, environment: GroupEnvironment) -> None:
    """Start the sessions of all members from the beginning after a load, and the rebalances that are necessary.

    A group with more members than allowed rebalances, and rejects the last ones that join. A group without a leader was
    downgraded from KIP-848 and was about to rebalance.
    """
    groups = [group for group in state.groups.values() if isinstance(group, ClassicGroup)]

    def begin(found: tuple[ClassicGroup, Member]) -> None:
        group, member = found
        if group.members.by_id.get(member.member_id) is member:
            rebalance.renew_session(group, environment, member.member_id, member.session_timeout_ms)

    in_portions("", environment, _members(groups), begin)
    in_portions("", environment, _reading(groups, environment), lambda _: None)
    for group in groups:
        if group.is_unled:
            rebalance.resume(group, environment)
        elif len(group.members) > environment.config.group_max_size:
            rebalance.prepare(group, environment)


def _reading(groups: Iterable[ClassicGroup], environment: GroupEnvironment) -> Iterator[None]:
    """Read the topics of each group that is unchanged since it was loaded. All groups share the portions."""
    for group in groups:
        yield
        if group.state is not ClassicState.STABLE or group.topics is not None:
            continue
        protocol = group.protocol or ""
        all_protocols = [member.protocols for member in group.members.by_id.values()]
        yield from reading(group, environment, (metadata_of(protocols, protocol) for protocols in all_protocols))


def _members(groups: list[ClassicGroup]) -> Iterator[tuple[ClassicGroup, Member]]:
    for group in groups:
        for member in list(group.members.by_id.values()):
            yield group, member
