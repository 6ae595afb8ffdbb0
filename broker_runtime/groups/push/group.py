"""A group of the push protocol: its registry, and where its rebalance stands. Pure.

Hard state are the consumers with what they registered with, one record each. What is owned, which connections there are
and what was asked over them is soft: a coordinator that takes over has each consumer register again, whose fetchers
have stopped by then, and assigns anew.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import CONSUMER, Committer, GroupType, OffsetRetention, Partitions
from broker_runtime.groups.push.member import PushMember
from broker_runtime.groups.push.ownership import Ownership, Plan, Snapshot, known_topics
from broker_runtime.groups.push.states import SHOWN, PushState
from broker_runtime.groups.push.subscription import Subscription
from broker_runtime.groups.records import GroupRecord, Key, PushMemberKey, PushMemberValue
from broker_runtime.groups.state import Applier, GroupsState
from broker_runtime.metadata.image import MetadataImage


class PushGroup:
    """Implements `groups.group.Group`. Without consumers it is none: what offsets it leaves are a group then."""

    type = GroupType.PUSH
    protocol_type = CONSUMER
    is_empty = False

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, PushMember] = {}
        self._subscriptions: dict[str, Subscription] = {}
        """Theirs: a snapshot of thousands is a copy of this."""
        self._named: Counter[str] = Counter()
        """Topics, and how many consumers name each."""
        self._wildcards = 0
        """Consumers that have one."""
        # Soft, from here on.
        self.missing: set[str] = set()
        """Consumers that the log knows, and that have not registered since this coordinator took over."""
        self.state = PushState.STABLE
        self.ownership: Ownership | None = None
        """Who reads what, by the last rebalance; None before it, and once fetchers were told to stop since."""
        self._gone: set[str] = set()
        """Consumers that stand in it and are gone: they may come back under the same id before anybody has looked."""
        self.topics: frozenset[str] | None = None
        """That the group reads, by the last plan."""
        self.plan: Plan | None = None
        """Of the rebalance that is under way, once it is there."""
        self.changed = False
        """Consumers or topics are others than when the plan was begun: another one is wanted."""
        self.lost = False
        """A consumer of the plan that is being made is gone."""
        self.attempt = 0
        """Of the rebalance that is under way: 1 is the first."""
        self.step = 0
        """Counts what is asked of all consumers, so that what is left of an earlier step is not asked any more."""
        self.awaited: dict[str, None] = {}
        """Consumers whose answer the rebalance waits for, in the order in which they are asked."""
        self.began_s: float | None = None
        """When the rebalance that is under way was found necessary, by the monotonic clock."""
        self.late: set[str] = set()
        """Those that have not answered in time since the rebalance began."""

    @property
    def state_name(self) -> str:
        return SHOWN[self.state]

    def check_commit(self, committer: Committer, partitions: Partitions = ()) -> None:
        """Consumers that commit themselves (without auto_commit) say their id; generations there are none."""
        member = self.members.get(committer.member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{committer.member_id!r} is no consumer of group {self.group_id}"
            )
        if committer.generation_or_epoch >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "groups of the push protocol have no generations: commit -1")
        if not member.fetching:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"consumer {committer.member_id!r} has not been started")
        # A commit that was on its way while others were started would put their offsets back.
        own = {(topic_id, partition) for (_, partition), topic_id in member.assigned.items()}
        for topic_id, partition in partitions:
            if topic_id is not None and (topic_id, partition) not in own:
                raise KafkaError(
                    ErrorCode.ILLEGAL_GENERATION,
                    f"consumer {committer.member_id!r} does not read partition {partition} of {topic_id}",
                )

    def check_fetch(self, committer: Committer) -> None:
        """Anybody may ask, as in the classic protocol."""

    def may_read(self, topics: Collection[str]) -> bool:
        """Whether somebody names one of them, or has a wildcard."""
        return self._wildcards > 0 or not self._named.keys().isdisjoint(topics)

    def snapshot(self, image: MetadataImage) -> Snapshot:
        """All topics are in it where somebody has a wildcard."""
        names = list(image.topics) if self._wildcards else list(self._named)
        topics = known_topics(names, image)
        return Snapshot(dict(self._subscriptions), topics, self.ownership, frozenset(self._gone))

    def put(self, member: PushMember) -> None:
        """It comes, or comes back as another."""
        self.remove(member.consumer_id)
        self._count(member, 1)
        self.members[member.consumer_id] = member
        self._subscriptions[member.consumer_id] = member.subscription

    def remove(self, consumer_id: str) -> None:
        member = self.members.pop(consumer_id, None)
        if member is not None:
            self._count(member, -1)
            del self._subscriptions[consumer_id]

    def _count(self, member: PushMember, change: int) -> None:
        self._wildcards += change * (member.subscription.wildcard is not None)
        for topic in member.subscription.topics:
            self._named[topic] += change
            if not self._named[topic]:
                del self._named[topic]

    def own(self, ownership: Ownership | None) -> None:
        """So it is from here on."""
        self.ownership = ownership
        self._gone.clear()

    def disown(self, consumer_id: str) -> None:
        """It is gone, and reads nothing."""
        self.lost = True
        if self.ownership is not None:
            self._gone.add(consumer_id)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics or topic in self._named

    def offset_retention(self) -> OffsetRetention | None:
        """Nothing expires before it is known what is read, and while it rebalances, as in the classic protocol: who
        has come since reads more."""
        if self.topics is None or self.state is not PushState.STABLE:
            return None
        return OffsetRetention(base_ms=None, subscribed=self.topics)

    def tombstones(self) -> Sequence[GroupRecord]:
        return [GroupRecord(PushMemberKey(self.group_id, consumer_id), None) for consumer_id in self.members]


def find_push_group(state: GroupsState, group_id: str) -> PushGroup | None:
    group = state.groups.get(group_id)
    return group if isinstance(group, PushGroup) else None


def member_on(group: PushGroup | None, consumer_id: str, connection: int) -> PushMember | None:
    """None where that consumer is not registered on that connection."""
    member = None if group is None else group.members.get(consumer_id)
    return member if member is not None and member.connection == connection else None


def _apply(state: GroupsState, key: PushMemberKey, value: PushMemberValue | None) -> None:
    """A group of another kind without members keeps only offsets, which are the new group's then."""
    group = state.groups.get(key.group_id)
    if value is None:
        if isinstance(group, PushGroup):
            group.remove(key.consumer_id)
            if not group.members:
                del state.groups[key.group_id]
        return
    if not isinstance(group, PushGroup):
        if group is not None and not group.is_empty:
            raise ValueError(f"a consumer of the push protocol in group {key.group_id}, which has members of another")
        group = state.groups[key.group_id] = PushGroup(key.group_id)
    group.put(PushMember(key.consumer_id, value))


APPLIERS: Mapping[type[Key], Applier] = {PushMemberKey: _apply}
