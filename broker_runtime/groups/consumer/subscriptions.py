"""What the members of a group ask for together, counted, so that one member's change costs what it changes. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from broker_runtime.groups.consumer.member import ConsumerMember
from broker_runtime.groups.records import ConsumerGroupRegularExpressionValue
from broker_runtime.steps import Steps, chosen, counted, distinct, in_order

NAMES_AT_ONCE_MAX = 256
"""A decision that reads more names of topics than these is made in steps."""


class Subscriptions:
    """`topics` counts members that name a topic and expressions that match it; `regexes` and `assignors` members."""

    def __init__(self) -> None:
        self.topics: Counter[str] = Counter()
        self.regexes: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_members = 0
        self.protocols: Counter[str] = Counter()
        """Of the classic protocol, how many of those who speak that know each."""
        self.resolved: dict[str, ConsumerGroupRegularExpressionValue] = {}
        """By expression, what topics it matched when it was looked at last."""

    @property
    def are_many(self) -> bool:
        """Whether a decision that reads all topics is made in steps."""
        return len(self.topics) > NAMES_AT_ONCE_MAX

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """One member is another now, came (`before` is None) or went (`after` is None)."""
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
        """Either may have thousands of names: those in both, and those that come, cost next to nothing."""
        if before == after:
            return
        old, new = dict.fromkeys(before), dict.fromkeys(after)
        _add(self.topics, [name for name in old if name not in new], -1)
        self.topics.update([name for name in new if name not in old])

    def _change_classic(self, member: ConsumerMember, count: int) -> None:
        classic = member.metadata.classic_member_metadata
        if classic is not None:
            self.classic_members += count
            _add(self.protocols, {name for name, _ in classic.supported_protocols}, count)

    def resolve(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """None: nobody subscribes to it any more."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            _add(self.topics, before.topics, -1)
        if value is not None:
            self.resolved[regex] = value
            _add(self.topics, value.topics, 1)

    def topics_after(
        self, gone: Sequence[Collection[str]], come: Sequence[Collection[str]]
    ) -> Steps[Collection[str] | None]:
        """All topics subscribed to when these lists are gone and those have come; None where they stay the same."""
        if gone == come:
            return None
        went = yield from counted(chain.from_iterable(gone))
        came = yield from counted(chain.from_iterable(come))
        lost = set((yield from chosen(went, lambda name: self.topics[name] - went[name] + came[name] <= 0)))
        new = yield from chosen(came, lambda name: came[name] > went[name] and name not in self.topics)
        if not lost and not new:
            return None
        return new + (yield from chosen(self.topics, lambda name: name not in lost))

    def preferred_assignor(self, before: ConsumerMember | None, after: ConsumerMember | None) -> str | None:
        """The one that most members ask for, with `after` in the place of `before`; None where nobody asks."""
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
    """An expression that nobody has looked at yet matches nothing."""
    names = frozenset(member.metadata.subscribed_topic_names)
    found = resolved.get(member.regex) if member.regex is not None else None
    return names if found is None else names.union(found.topics)


def sorted_names(names: Iterable[str]) -> Steps[tuple[str, ...]]:
    """Each name once, in order, as a member's record has them."""
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
