"""What the members of a group ask for together, counted, so that one member's change costs what it changes. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from broker_runtime.groups.consumer.member import ConsumerMember
from broker_runtime.groups.records import ConsumerGroupRegularExpressionValue


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

    def change(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """One member is another now, came (`before` is None) or went (`after` is None)."""
        for member, count in ((before, -1), (after, 1)):
            if member is None:
                continue
            self._change_classic(member, count)
            _add(self.topics, member.metadata.subscribed_topic_names, count)
            if member.regex is not None:
                _add(self.regexes, (member.regex,), count)
            if member.metadata.server_assignor is not None:
                _add(self.assignors, (member.metadata.server_assignor,), count)

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

    def topics_after(self, gone: Sequence[Collection[str]], come: Sequence[Collection[str]]) -> frozenset[str] | None:
        """All topics subscribed to when these lists are gone and those have come; None where they stay the same."""
        if gone == come:
            return None
        delta: Counter[str] = Counter()
        for names in gone:
            delta.subtract(names)
        for names in come:
            delta.update(names)
        lost = {name for name, count in delta.items() if count < 0 and self.topics[name] + count <= 0}
        new = {name for name, count in delta.items() if count > 0 and name not in self.topics}
        return frozenset((self.topics.keys() - lost) | new) if lost or new else None

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


def _add(counter: Counter[str], names: Collection[str], count: int) -> None:
    for name in names:
        left = counter[name] + count
        if left > 0:
            counter[name] = left
        else:
            del counter[name]
