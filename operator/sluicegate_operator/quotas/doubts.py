"""Changes whose outcome is not known: a broker was told and has not answered, so that it may yet do it.

It may then undo what it was told after, or what others were. So the limits are looked at again every few seconds, until
the broker has had all the time that it takes for one change, and, where it is silent (frozen, or not reachable), until
it has had that time from its next answer on. Pure; times are seconds of the caller's clock.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from math import inf

from sluicegate_operator.planning.limits import LimitKey

AGAIN_S = 5.0
LATE_S = 60.0
"""So long a broker of Kafka goes on trying to reach its controller with a change that it has taken."""


@dataclass(slots=True)
class _Doubt:
    """`waits`: its broker is silent, and has had its time otherwise."""

    keys: set[LimitKey]
    look_s: float
    until_s: float
    waits: bool = False


class Doubts:
    """Of one cluster, by the broker that did not answer: each has no more of them than there are limits."""

    def __init__(self) -> None:
        self._of: dict[int, _Doubt] = {}

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset(key for doubt in self._of.values() for key in doubt.keys)

    @property
    def keys_awaited(self) -> frozenset[LimitKey]:
        """Without those of brokers that have had their time, and are silent."""
        return frozenset(key for doubt in self._of.values() if not doubt.waits for key in doubt.keys)

    def note(self, broker_id: int, keys: Iterable[LimitKey], now_s: float) -> None:
        look_s, until_s = now_s + AGAIN_S, now_s + LATE_S
        doubt = self._of.setdefault(broker_id, _Doubt(set(), look_s, until_s))
        doubt.keys.update(keys)
        doubt.look_s, doubt.until_s, doubt.waits = min(doubt.look_s, look_s), until_s, False

    def take(self, silent: Set[int], now_s: float) -> frozenset[LimitKey]:
        """Those that are to be looked at now. `silent`: brokers that did not answer when they were asked last."""
        taken: set[LimitKey] = set()
        for broker_id, doubt in list(self._of.items()):
            if doubt.waits and broker_id not in silent:
                doubt.look_s, doubt.until_s, doubt.waits = now_s, now_s + LATE_S, False
            if doubt.waits or now_s < doubt.look_s:
                continue
            taken |= doubt.keys
            if now_s < doubt.until_s:
                doubt.look_s = min(now_s + AGAIN_S, doubt.until_s)
            elif broker_id in silent:
                doubt.waits = True
            else:
                del self._of[broker_id]
        return frozenset(taken)

    def next_look_s(self, silent: Set[int]) -> float:
        """When `take` has something; infinity when nobody's answer is waited for."""
        due = (
            0.0 if doubt.waits else doubt.look_s for b, doubt in self._of.items() if not doubt.waits or b not in silent
        )
        return min(due, default=inf)
