"""The members of one group and their pending requests.

Pure. The cost of a change does not depend on the number of members.
"""

from collections import OrderedDict
from collections.abc import Sequence

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.member import Member, protocol_names
from broker_runtime.groups.classic.requests import JoinAnswer, SyncAnswer
from broker_runtime.groups.records import ClassicProtocol
from broker_runtime.slicing.steps import Steps, counted, each

_AT_ONCE_MAX = 100


class Members:
    """The members of a classic group by id, in the order in which they joined."""

    def __init__(self) -> None:
        self.by_id: OrderedDict[str, Member] = OrderedDict()
        """An OrderedDict: in a plain dict, finding the first entry takes longer the more entries before it were
        removed."""
        self.static: dict[str, str] = {}
        """Member ids of static members by instance id (KIP-345)."""
        self.pending_ids: dict[str, None] = {}
        """Member ids that were assigned but not used in a JoinGroup yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent a SyncGroup yet."""
        self.joining = 0
        """Number of members with a pending JoinGroup."""
        self.syncing: dict[str, Member] = {}
        """Members with a pending SyncGroup."""
        self._supporters: dict[str, int] = {}
        """Number of members that support each protocol; only protocols with at least one."""

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def are_many(self) -> bool:
        """Return whether the group has so many members that a decision that reads all of them is made in steps."""
        return len(self.by_id) > _AT_ONCE_MAX

    def add(self, member: Member, join: DeferredAnswer[JoinAnswer] | None = None) -> None:
        """Add a member whose id and instance id are not in use."""
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self.static[member.group_instance_id] = member.member_id
        self._count(member.protocols, 1)
        self.pending_ids.pop(member.member_id, None)
        self.wait_for_join(member, join)

    def remove(self, member: Member) -> None:
        del self.by_id[member.member_id]
        self.pending_sync.discard(member.member_id)
        if member.group_instance_id is not None:
            del self.static[member.group_instance_id]
        self._count(member.protocols, -1)
        self.wait_for_join(member, None)
        self.wait_for_sync(member, None)

    def change_protocols(self, member: Member, protocols: tuple[ClassicProtocol, ...]) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def wait_for_join(self, member: Member, join: DeferredAnswer[JoinAnswer] | None) -> None:
        """Set the answer to the member's pending JoinGroup; None if the member has no pending JoinGroup."""
        self.joining += (join is not None) - (member.join is not None)
        member.join = join

    def wait_for_sync(self, member: Member, sync: DeferredAnswer[SyncAnswer] | None) -> None:
        """Set the answer to the member's pending SyncGroup; None if the member has no pending SyncGroup."""
        member.sync = sync
        if sync is None:
            self.syncing.pop(member.member_id, None)
        else:
            self.syncing[member.member_id] = member

    @property
    def all_joined(self) -> bool:
        return len(self.by_id) == self.joining and not self.pending_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members in milliseconds. Reads all members."""
        return max([0, *(member.rebalance_timeout_ms for member in self.by_id.values())])

    def can_talk_with(self, protocols: Sequence[ClassicProtocol]) -> bool:
        """Return whether all members support one of these protocols."""
        return any(self._supporters.get(name, 0) == len(self.by_id) for name, _ in protocols)

    def elected_protocol(self) -> Steps[str]:
        """Return the protocol that most members prefer, among those that all members support.

        Reads all members; the group must have at least one.
        """
        candidates = {name for name, count in self._supporters.items() if count == len(self.by_id)}
        if len(candidates) == 1:
            return candidates.pop()
        votes = yield from counted((yield from each(self.by_id.values(), lambda member: member.vote(candidates))))
        return votes.most_common(1)[0][0]

    def refusal(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        """Return the error for a client that does not match a member; None for a client that does."""
        if group_instance_id is not None:
            known = self.static.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    def not_rejoined(self) -> list[Member]:
        """Return the members without a pending JoinGroup. Reads all members."""
        return [member for member in self.by_id.values() if member.join is None]

    def _count(self, protocols: Sequence[ClassicProtocol], change: int) -> None:
        for name in protocol_names(protocols):
            count = self._supporters.get(name, 0) + change
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]
