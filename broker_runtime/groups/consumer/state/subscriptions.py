"""The subscriptions of all members of a group, counted, so that a change costs no more than its own size. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import ClassVar

from broker_runtime.groups.consumer.state.behind import Behind
from broker_runtime.groups.consumer.state.member import ConsumerMember
from broker_runtime.groups.records import ConsumerGroupRegularExpressionValue
from broker_runtime.slicing.steps import Steps, chosen, counted, distinct, in_order

NAMES_AT_ONCE_MAX = 256
"""Limit of the topic names that one decision reads at once. With more names, the decision is made in steps."""


class Subscriptions(Behind[str, int]):
    """The number of subscribers of each topic, and of members for each expression and each assignor.

    `topics` counts members and expressions, `regexes` and `assignors` count members. Long changes are noted, and
    counted by `catch_up` or when `topics` is next read.
    """

    OF_A_STEP: ClassVar[int] = 256

    def __init__(self) -> None:
        super().__init__()
        self._topics: Counter[str] = Counter()
        self.regexes: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members = 0
        self.protocols: Counter[str] = Counter()
        """Number of members of the classic protocol that support each protocol."""
        self.resolved: dict[str, ConsumerGroupRegularExpressionValue] = {}
        """The topics that each expression matched when it was last evaluated."""

    @property
    def topics(self) -> Counter[str]:
        """Return how many members subscribe to each topic. Callers must not change them."""
        self._catch_up_at_once()
        return self._topics

    def _count(self, some: Sequence[str], how: int) -> None:
        """Count the names. `how` is what each name adds to its count."""
        _add(self._topics, some, how)

    @property
    def are_many(self) -> bool:
        """Return whether there are so many topics that a decision that reads all of them is made in steps."""
        return len(self.topics) > NAMES_AT_ONCE_MAX

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Update the counts with one member's changed subscription.

        `before` is None for a member that has joined, `after` for one that has left.
        """
        self._change_topics(_names(before), _names(after))
        for member, count in ((before, -1), (after, 1)):
            if member is None:
                continue
            self._change_classic(member, count)
            if member.regex is not None:
                _add(self.regexes, (member.regex,), count)
            if member.metadata.server_assignor is not None:
                _add(self.assignors, (member.metadata.server_assignor,), count)

    def _change_topics(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        """Count the change of names. A name in both lists is counted up first, so that its count is never 0."""
        if before == after:
            return
        are_few = not self._noted and len(before) + len(after) <= NAMES_AT_ONCE_MAX
        self._noted.append((iter(after), 1))
        self._noted.append((iter(before), -1))
        if are_few:
            self._catch_up_at_once()

    def _change_classic(self, member: ConsumerMember, count: int) -> None:
        classic = member.metadata.classic_member_metadata
        if classic is not None:
            self.classic_members += count
            _add(self.protocols, {name for name, _ in classic.supported_protocols}, count)

    def resolve(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """Set the topics of an expression; None if no member subscribes to the expression any more."""
        before = self.resolved.pop(regex, None)
        if value is not None:
            self.resolved[regex] = value
        self._change_topics(() if before is None else before.topics, () if value is None else value.topics)

    def topics_after(
        self, gone: Sequence[Collection[str]], come: Sequence[Collection[str]]
    ) -> Steps[Collection[str] | None]:
        """Return all subscribed topics after the lists in `gone` are removed and those in `come` are added.

        None if the topics do not change.
        """
        if gone == come:
            return None
        went = yield from counted(chain.from_iterable(gone))
        came = yield from counted(chain.from_iterable(come))
        topics = self.topics
        lost = set((yield from chosen(went, lambda name: topics[name] - went[name] + came[name] <= 0)))
        new = yield from chosen(came, lambda name: came[name] > went[name] and name not in topics)
        if not lost and not new:
            return None
        return new + (yield from chosen(topics, lambda name: name not in lost))

    def preferred_assignor(self, before: ConsumerMember | None, after: ConsumerMember | None) -> str | None:
        """Return the assignor that most members ask for; None if no member asks for one.

        The votes are counted with `after` in place of `before`.
        """
        votes = self.assignors
        old = before.metadata.server_assignor if before is not None else None
        new = after.metadata.server_assignor if after is not None else None
        if old != new:
            votes = votes.copy()
            _add(votes, () if old is None else (old,), -1)
            _add(votes, () if new is None else (new,), 1)
        return max(votes, key=lambda name: (votes[name], name)) if votes else None

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        return topics_of(member, self.resolved)


def topics_of(member: ConsumerMember, resolved: Mapping[str, ConsumerGroupRegularExpressionValue]) -> frozenset[str]:
    """Return the topics that the member subscribes to. An expression that was never evaluated matches no topics."""
    names = frozenset(member.metadata.subscribed_topic_names)
    found = resolved.get(member.regex) if member.regex is not None else None
    return names if found is None else names.union(found.topics)


def sorted_names(names: Iterable[str]) -> Steps[tuple[str, ...]]:
    """Return the names sorted and without duplicates, as in a member's record."""
    return tuple((yield from in_order((yield from distinct(names)))))


def _names(member: ConsumerMember | None) -> tuple[str, ...]:
    return () if member is None else member.metadata.subscribed_topic_names


def _add(counter: Counter[str], names: Collection[str], count: int) -> None:
    for name in names:
        left = counter[name] + count
        if left > 0:
            counter[name] = left
        else:
            del counter[name]
