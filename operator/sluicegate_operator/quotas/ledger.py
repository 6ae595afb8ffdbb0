"""What the brokers of one cluster have been seen to have of what is wanted, from look to look.

It is what makes a change cost no more than itself: a broker that was looked at whole is asked for what has changed
since, and for what it lacked, until something gives a reason to look at all of it again. Only what a broker lacks is
kept. Pure; nothing of it is durable, and an empty one only costs a whole look.
"""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from sluicegate_operator.planning.limits import LimitKey, Missing, ObservedLimits
from sluicegate_operator.quotas.doubts import Doubts


@dataclass(slots=True)
class Standing:
    """Of one broker: `lacks` may be more than it lacks, never less: what has changed and was not looked at yet is in
    it. `listeners`: see ObservedLimits."""

    place: tuple[str, int]
    lacks: set[LimitKey] = field(default_factory=set)
    listeners: frozenset[str] | None = None
    whole: bool = False
    """Whether all of it was seen, at this place and since it last failed to answer."""


class LimitLedger:
    """Of one cluster. `refused`: what brokers say of limits that they will not take whenever they are asked."""

    def __init__(self) -> None:
        self.brokers: dict[int, Standing] = {}
        self.refused: dict[LimitKey, str] = {}
        self.silent: set[int] = set()
        """Those that did not answer when they were asked last."""
        self.kept_back: frozenset[LimitKey] = frozenset()
        """What brokers are not told for now: none is known to have it as it is stated."""
        self.held = False
        """Whether limits were held at the last look: what differed then is nobody's hand."""
        self.doubts = Doubts()
        """What brokers were told and did not answer."""

    def keep(self, places: Mapping[int, tuple[str, int]], up: Set[int]) -> None:
        """Brokers that have gone, or are somewhere else now, are forgotten; of those that are not `up` all is asked."""
        self.brokers = {b: s for b, s in self.brokers.items() if places.get(b) == s.place}
        self.silent &= places.keys()
        for broker_id in self.brokers.keys() - up:
            self.brokers[broker_id].whole = False

    def look_at_all(self) -> None:
        """The next look is at everything."""
        for standing in self.brokers.values():
            standing.whole = False

    def changed(self, keys: Collection[LimitKey]) -> None:
        """Something else is wanted now under these keys, and nobody has been seen to have it."""
        for standing in self.brokers.values():
            standing.lacks.update(keys)
        for key in self.refused.keys() & keys:
            del self.refused[key]

    def asks(self, broker_id: int, keys: Set[LimitKey]) -> frozenset[LimitKey] | None:
        """What to ask a broker for besides `keys`, which are asked of all; None: everything."""
        standing = self.brokers.get(broker_id)
        return frozenset(keys | standing.lacks) if standing is not None and standing.whole else None

    @property
    def any_whole(self) -> bool:
        return any(standing.whole for standing in self.brokers.values())

    def answered(
        self, broker_id: int, place: tuple[str, int], asked: Set[LimitKey] | None, lacks: Missing, seen: ObservedLimits
    ) -> None:
        """`asked`: what for; None: everything."""
        standing = self.brokers.setdefault(broker_id, Standing(place))
        self.silent.discard(broker_id)
        if asked is None:
            standing.lacks, standing.whole = set(lacks.keys), True
        else:
            standing.lacks = (standing.lacks - asked) | lacks.keys
        if seen.listeners is not None:
            standing.listeners = seen.listeners

    def fell_silent(self, broker_id: int) -> None:
        """What it said before still holds for a while, and is not built upon."""
        self.silent.add(broker_id)
        if broker_id in self.brokers:
            self.brokers[broker_id].whole = False

    def forget(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)
        self.silent.discard(broker_id)

    def lacked(self) -> dict[int, frozenset[LimitKey]]:
        """By broker; to see what has become different."""
        return {broker_id: self.kept_back | standing.lacks for broker_id, standing in self.brokers.items()}

    def open_somewhere(self, seen: Mapping[int, ObservedLimits]) -> frozenset[str] | None:
        """Listeners, as was `seen` or else before; None where a broker does not say which it has: it may be any."""
        opened = {broker_id: standing.listeners for broker_id, standing in self.brokers.items()}
        for broker_id, answer in seen.items():
            if answer.listeners is not None or broker_id not in opened:
                opened[broker_id] = answer.listeners
        known = [listeners for listeners in opened.values() if listeners is not None]
        return frozenset().union(*known) if len(known) == len(opened) else None
