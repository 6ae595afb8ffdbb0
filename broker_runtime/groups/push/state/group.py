"""A group of the push protocol: its consumers and the state of its rebalance. Pure.

The consumers and their registrations are hard state, one record each. Ownership, connections and calls are soft state.
After a fail-over all consumers register again, with their fetchers stopped, and the coordinator assigns partitions
again.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import CONSUMER, Committer, GroupType, OffsetRetention, Partitions
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.push.state.ownership import AssignmentInput, Ownership, Plan, known_topics
from broker_runtime.groups.push.state.states import SHOWN, PushState
from broker_runtime.groups.push.state.subscription import Subscription
from broker_runtime.groups.records import GroupRecord, Key, PushMemberKey, PushMemberValue
from broker_runtime.groups.state import Applier, GroupsState
from broker_runtime.metadata.image import MetadataImage


class PushGroup:
    """A group of the push protocol: implements `groups.group.Group`.

    A group without consumers does not exist: the offsets that it leaves become an empty classic group.
    """

    type = GroupType.PUSH
    protocol_type = CONSUMER
    is_empty = False

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, PushMember] = {}
        self._subscriptions: dict[str, Subscription] = {}
        """Subscriptions of the consumers by id, so that a snapshot of thousands is a copy of this."""
        self._named: Counter[str] = Counter()
        """Number of consumers that name each topic."""
        self._wildcards = 0
        """Number of consumers with a wildcard."""
        # Soft, from here on.
        self.missing: set[str] = set()
        """Consumers in the log that have not registered since this coordinator took over."""
        self.state = PushState.STABLE
        self.ownership: Ownership | None = None
        """The ownership by the last rebalance; None before the first one, and once fetchers are being stopped again."""
        self._gone: set[str] = set()
        """Consumers in `ownership` that have left. They may register again under the same id before the next plan."""
        self.topics: frozenset[str] | None = None
        """Names of the topics that the group reads, by the last plan; None before the first plan."""
        self.plan: Plan | None = None
        """The plan of the running rebalance, once it is computed."""
        self.changed = False
        """Whether consumers or topics have changed since the plan was started, so that another one is needed."""
        self.lost = False
        """Whether a consumer of the plan that is being computed has left."""
        self.attempt = 0
        """Number of the running rebalance's attempt, from 1."""
        self.step = 0
        """Number of the current step, so that calls that are left of an earlier step are not sent any more."""
        self.awaited: dict[str, None] = {}
        """Consumers whose answer the rebalance waits for, in the order of their calls."""
        self.began_s: float | None = None
        """Time at which the running rebalance was found necessary, by the monotonic clock in seconds."""
        self.late: set[str] = set()
        """Consumers that have not answered in time since the rebalance began."""

    @property
    def state_name(self) -> str:
        return SHOWN[self.state]

    def check_commit(self, committer: Committer, partitions: Partitions = (), *, in_transaction: bool = False) -> None:
        """Raise KafkaError if the client may not commit.

        Consumers that commit themselves (without auto_commit) send their id. The push protocol has no generations, and
        takes no part in transactions: a consumer may be stopped and its partitions given away before its transaction
        ends, and nothing would fence it.
        """
        if in_transaction:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.group_id} uses the push protocol, which takes no part in transactions; consume with the "
                "classic or the consumer protocol, or commit without a transaction",
            )
        member = self.members.get(committer.member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{committer.member_id!r} is not a consumer of group {self.group_id}"
            )
        if committer.generation_or_epoch >= 0:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                "groups of the push protocol have no generations: commit with generation -1",
            )
        if not member.fetching:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"consumer {committer.member_id!r} has not been started")
        # A commit that was on its way while other consumers were started would reset their offsets.
        own = {(topic_id, partition) for (_, partition), topic_id in member.assigned.items()}
        for topic_id, partition in partitions:
            if topic_id is not None and (topic_id, partition) not in own:
                raise KafkaError(
                    ErrorCode.ILLEGAL_GENERATION,
                    f"partition {partition} of {topic_id} is not assigned to consumer {committer.member_id!r}",
                )

    def check_fetch(self, committer: Committer) -> None:
        """Allow every client to fetch offsets, as in the classic protocol."""

    def may_read(self, topics: Collection[str]) -> bool:
        """Return whether a consumer of the group names one of the topics, or has a wildcard."""
        return self._wildcards > 0 or not self._named.keys().isdisjoint(topics)

    def snapshot(self, image: MetadataImage) -> AssignmentInput:
        """Return the input for planning the assignment. The input has all topics if a consumer has a wildcard."""
        names = list(image.topics) if self._wildcards else list(self._named)
        topics = known_topics(names, image)
        members = self.members.values() if self._wildcards else ()
        filter_of = {each.consumer_id: each.topic_filter for each in members if each.topic_filter is not None}
        checks = {each: each.now() for each in set(filter_of.values())}
        return AssignmentInput(
            dict(self._subscriptions), topics, self.ownership, frozenset(self._gone), filter_of, checks
        )

    def put(self, member: PushMember) -> None:
        """Add the consumer, or replace its earlier registration."""
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
        """Set the ownership, and forget which of the owners have left."""
        self.ownership = ownership
        self._gone.clear()

    def disown(self, consumer_id: str) -> None:
        """Record that the consumer has left and reads nothing."""
        self.lost = True
        if self.ownership is not None:
            self._gone.add(consumer_id)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics or topic in self._named

    def offset_retention(self) -> OffsetRetention | None:
        """Return how long the group's offsets are kept; None if none expires.

        None expires before the first plan and during a rebalance, as in the classic protocol. A consumer that has
        registered since then may read more topics.
        """
        if self.topics is None or self.state is not PushState.STABLE:
            return None
        return OffsetRetention(base_ms=None, subscribed=self.topics)

    def tombstones(self) -> Sequence[GroupRecord]:
        return [GroupRecord(PushMemberKey(self.group_id, consumer_id), None) for consumer_id in self.members]


def find_push_group(state: GroupsState, group_id: str) -> PushGroup | None:
    group = state.groups.get(group_id)
    return group if isinstance(group, PushGroup) else None


def member_on(group: PushGroup | None, consumer_id: str, connection: int) -> PushMember | None:
    """Return the consumer; None if the consumer is not registered on that connection."""
    member = None if group is None else group.members.get(consumer_id)
    return member if member is not None and member.connection == connection else None


def _apply(state: GroupsState, key: PushMemberKey, value: PushMemberValue | None) -> None:
    """Apply a registration.

    A group of another type without members only keeps offsets, and the new group takes them over.
    """
    group = state.groups.get(key.group_id)
    if value is None:
        if isinstance(group, PushGroup):
            group.remove(key.consumer_id)
            if not group.members:
                del state.groups[key.group_id]
        return
    if not isinstance(group, PushGroup):
        if group is not None and not group.is_empty:
            raise ValueError(
                f"a consumer of the push protocol belongs to group {key.group_id}, whose members use another protocol"
            )
        group = state.groups[key.group_id] = PushGroup(key.group_id)
    group.put(PushMember(key.consumer_id, value))


APPLIERS: Mapping[type[Key], Applier] = {PushMemberKey: _apply}
