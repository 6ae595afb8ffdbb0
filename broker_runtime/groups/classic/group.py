"""One group of the classic protocol. Pure.

The group's record (GroupMetadataValue) has the hard state: generation, protocol, leader, members and assignments. It is
written when the leader's assignment arrives, or when the last member has left. All changes in between are soft state: a
coordinator that takes over has the generation that was last complete, as in Apache Kafka. A decision may change soft
state; only a record makes a group Stable.
"""

from collections.abc import Mapping, Sequence, Set

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.members import Members
from broker_runtime.groups.classic.states import PREVIOUS, ClassicState
from broker_runtime.groups.group import CONSUMER, Committer, GroupType, OffsetRetention, Partitions
from broker_runtime.groups.records import ClassicMember, GroupMetadataKey, GroupMetadataValue, GroupRecord, Key
from broker_runtime.groups.state import Applier, GroupsState


class ClassicGroup:
    """A group of the classic protocol: implements `groups.group.Group`.

    A group that only keeps offsets keeps its initial values.
    """

    type = GroupType.CLASSIC

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms: int | None = None
        """Wall-clock time in milliseconds when the group entered its state; None if it is not known."""
        self.protocol_type = ""
        """The protocol type. It stays when the last member leaves."""
        self.protocol: str | None = None
        """The protocol that the members of this generation use."""
        self.generation = 0
        self.leader: str | None = None
        """The member id of the leader; None if the group has no members, or if it is `is_unled`."""
        self.members = Members()
        self.newcomer = False
        """Whether a member has joined since the initial rebalance was last delayed."""
        self.topics: Set[str] | None = None
        """The topics that the members of this generation read; None while they are not known (`reading`).

        The set never changes: the next generation gets another one.
        """
        self._decided: GroupMetadataValue | None = None

    @classmethod
    def restored(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """Return the group that its record describes, after a fail-over.

        The topics that its members read are not known yet.
        """
        group = cls(group_id)
        for recorded in value.members:
            group.members.add(Member.restored(recorded, value.protocol or ""))
        group._take_over(value)
        if not value.members and group.protocol_type == CONSUMER:
            group.topics = frozenset()
        return group

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_unled(self) -> bool:
        """Return whether the group was just downgraded from KIP-848.

        Other members may still own partitions of its members' assignments, so all members have to join first.
        """
        return bool(self.members) and self.leader is None

    def apply(self, value: GroupMetadataValue) -> bool:
        """Apply the record if it is the one that this group has just decided (`record`).

        Returns False for another record: the caller then replaces the group by a `restored` one, without pending
        requests.
        """
        if value is not self._decided:
            return False
        self._decided = None
        self._take_over(value)
        return True

    def _take_over(self, value: GroupMetadataValue) -> None:
        for recorded in value.members:
            self.members.by_id[recorded.member_id].assignment = recorded.assignment
        self.protocol_type = value.protocol_type
        self.protocol = value.protocol
        self.generation = value.generation
        self.leader = value.leader
        state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        if self.state is not state:
            self.previous_state, self.state = self.state, state
        if self.is_unled:
            self.previous_state, self.state = ClassicState.STABLE, ClassicState.PREPARING_REBALANCE
        since_ms = value.current_state_timestamp_ms
        self.state_since_ms = None if since_ms == -1 else since_ms

    def enter(self, state: ClassicState, now_ms: int) -> None:
        """Enter a state that is entered without a record.

        Raises RuntimeError if the transition from the current state is not allowed.
        """
        if self.state not in PREVIOUS[state]:
            raise RuntimeError(f"group {self.group_id} cannot become {state.value}: it is {self.state.value}")
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms

    def record(self, members: Sequence[ClassicMember], now_ms: int, packed_members: bytes | None = None) -> GroupRecord:
        """Return the record of the group in its current state. `members` must be all members of the group."""
        self._decided = GroupMetadataValue(
            self.protocol_type, self.generation, self.protocol, self.leader, now_ms, tuple(members), packed_members
        )
        return GroupRecord(GroupMetadataKey(self.group_id), self._decided)

    def check_commit(self, committer: Committer, partitions: Partitions = (), *, in_transaction: bool = False) -> None:
        """Raise KafkaError if the client may not commit.

        A client that has not joined may commit to an empty group only. While a generation waits for its assignment, its
        members may not commit either. Both may commit in a transaction.
        """
        if committer.generation_or_epoch < 0 and self.is_empty:
            return
        if committer.is_anonymous:
            if in_transaction:
                return
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has members: only they may commit")
        self._check_generation(committer.member_id, committer.group_instance_id, committer.generation_or_epoch)
        if self.state is ClassicState.COMPLETING_REBALANCE and not in_transaction:
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS, f"group {self.group_id} waits for its assignment (SyncGroup)"
            )

    def _check_generation(self, member_id: str, group_instance_id: str | None, generation: int) -> None:
        """Raise KafkaError unless the client is a member of this generation."""
        refusal = self.members.refusal(member_id, group_instance_id)
        if refusal is not None:
            raise KafkaError(refusal, f"{member_id!r} is not a member of group {self.group_id}")
        if generation != self.generation:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.group_id} is in generation {self.generation}, not {generation}",
            )

    def check_fetch(self, committer: Committer) -> None:
        """Allow every client to fetch offsets: this protocol has no such check."""

    def is_subscribed_to(self, topic: str) -> bool:
        if self.protocol_type != CONSUMER:
            return False
        return self.topics is None or topic in self.topics

    def offset_retention(self) -> OffsetRetention | None:
        """Return how long the group's offsets are kept; None if none expires.

        None expires during a rebalance, and if the topics that the members read are not known.
        """
        if not self.protocol_type:
            return OffsetRetention(None)
        if self.is_empty:
            return OffsetRetention(self.state_since_ms)
        if self.state is ClassicState.STABLE and self.protocol_type == CONSUMER and self.topics is not None:
            return OffsetRetention(None, self.topics)
        return None

    def tombstones(self) -> Sequence[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(self.group_id), None)]


def _apply(state: GroupsState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    group = state.groups.get(key.group_id)
    if value is None:
        if isinstance(group, ClassicGroup):
            del state.groups[key.group_id]
    elif not (isinstance(group, ClassicGroup) and group.apply(value)):
        state.groups[key.group_id] = ClassicGroup.restored(key.group_id, value)


APPLIERS: Mapping[type[Key], Applier] = {GroupMetadataKey: _apply}
