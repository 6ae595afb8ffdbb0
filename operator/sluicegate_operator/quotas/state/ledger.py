"""The ledger of one cluster: which of the wanted limits each broker was seen to lack.

It makes the cost of a change proportional to the change. A broker that was asked for everything once is then asked only
for changed limits and for limits that it lacked, until there is a reason to ask for everything again. The ledger keeps
only lacking limits. It is lost when the operator stops; an empty ledger only costs one request for everything. Pure.
"""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from sluicegate_operator.planning.limits.limits import LimitKey, Missing, ObservedLimits
from sluicegate_operator.quotas.state.unconfirmed_limits import UnconfirmedLimits


@dataclass(slots=True)
class Standing:
    """The limits that one broker lacks, and the listeners that it has open.

    `lacks` contains all limits that the broker lacks, and perhaps more: changed limits stay in it until the broker was
    asked for them. `listeners` are those that the broker has open; None if it did not report them.
    """

    place: tuple[str, int]
    lacks: set[LimitKey] = field(default_factory=set)
    listeners: frozenset[str] | None = None
    whole: bool = False
    """Whether all of its limits were read, at this address and since it last failed to answer."""


class LimitLedger:
    """Remembers which limits each broker of a cluster lacks.

    `refused` has the limits that brokers refuse each time, with the reason.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, Standing] = {}
        self.refused: dict[LimitKey, str] = {}
        self.silent: set[int] = set()
        """Brokers that did not answer the last request."""
        self.kept: frozenset[LimitKey] = frozenset()
        """Limits that brokers keep in place of their wanted values."""
        self.kept_any = False
        """Whether brokers kept limits in the last pass: differences that are seen after it are not manual drift."""
        self.doubts = UnconfirmedLimits()
        """Changes that brokers did not answer."""

    def keep(self, places: Mapping[int, tuple[str, int]], up: Set[int]) -> None:
        """Forget the answers of brokers that were removed or have another address.

        Brokers that are not `up` are asked for everything.
        """
        self.brokers = {b: s for b, s in self.brokers.items() if places.get(b) == s.place}
        self.silent &= places.keys()
        for broker_id in self.brokers.keys() - up:
            self.brokers[broker_id].whole = False

    def read_all(self) -> None:
        """Have all limits of all brokers read in the next pass."""
        for standing in self.brokers.values():
            standing.whole = False

    def changed(self, keys: Collection[LimitKey]) -> None:
        """Note that these limits have changed: no broker has been seen to have them."""
        for standing in self.brokers.values():
            standing.lacks.update(keys)
        for key in self.refused.keys() & keys:
            del self.refused[key]

    def asks(self, broker_id: int, keys: Set[LimitKey]) -> frozenset[LimitKey] | None:
        """Return the limits to ask a broker for: `keys`, and those that it may lack; None means all limits."""
        standing = self.brokers.get(broker_id)
        return frozenset(keys | standing.lacks) if standing is not None and standing.whole else None

    @property
    def any_whole(self) -> bool:
        return any(standing.whole for standing in self.brokers.values())

    def answered(
        self, broker_id: int, place: tuple[str, int], asked: Set[LimitKey] | None, lacks: Missing, seen: ObservedLimits
    ) -> None:
        """Record a broker's answer: the limits that it lacks, and the listeners that it has open.

        `place` is the host and port that the broker answered at. `asked` has the limits that the broker was asked for;
        None means all limits.
        """
        standing = self.brokers.setdefault(broker_id, Standing(place))
        self.silent.discard(broker_id)
        if asked is None:
            standing.lacks, standing.whole = set(lacks.keys), True
        else:
            standing.lacks = (standing.lacks - asked) | lacks.keys
        if seen.listeners is not None:
            standing.listeners = seen.listeners

    def fell_silent(self, broker_id: int) -> None:
        """Record that a broker did not answer.

        Its last answer stays valid for a while; the next request asks for everything.
        """
        self.silent.add(broker_id)
        if broker_id in self.brokers:
            self.brokers[broker_id].whole = False

    def forget(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)
        self.silent.discard(broker_id)

    def lacked(self) -> dict[int, frozenset[LimitKey]]:
        """Return the limits that each broker lacks, or has although it should not, by broker."""
        return {broker_id: self.kept | standing.lacks for broker_id, standing in self.brokers.items()}

    def open_somewhere(self, seen: Mapping[int, ObservedLimits]) -> frozenset[str] | None:
        """Return the listeners that some broker has open, from `seen` or else from earlier answers.

        None if a broker does not report its listeners: any may be open.
        """
        opened = {broker_id: standing.listeners for broker_id, standing in self.brokers.items()}
        for broker_id, answer in seen.items():
            if answer.listeners is not None or broker_id not in opened:
                opened[broker_id] = answer.listeners
        known = [listeners for listeners in opened.values() if listeners is not None]
        return frozenset().union(*known) if len(known) == len(opened) else None
