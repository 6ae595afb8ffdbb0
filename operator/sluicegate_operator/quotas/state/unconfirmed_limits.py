"""Changes that a broker has received and not answered: their outcome is not known, and the broker may still make them.

A late change may undo newer ones, even those that were sent through other brokers. So the limits are read again every
`AGAIN_S`, until the broker has had `LATE_S` for the change. If the broker is silent (frozen, or not reachable), this
time begins with its next answer. Pure; times are seconds of the caller's clock.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from math import inf

from sluicegate_operator.planning.limits.limits import LimitKey

AGAIN_S = 5.0
LATE_S = 60.0
"""Time for which a broker of Kafka tries to forward a change to its controller."""


@dataclass(slots=True)
class _Doubt:
    """Limits whose change a broker has not answered. `waits`: the time has passed, but the broker is still silent."""

    keys: set[LimitKey]
    look_s: float
    until_s: float
    waits: bool = False


class UnconfirmedLimits:
    """Limits of one cluster in doubt, by the broker that did not answer. A broker has each limit at most once."""

    def __init__(self) -> None:
        self._of: dict[int, _Doubt] = {}

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset(key for doubt in self._of.values() for key in doubt.keys)

    @property
    def keys_awaited(self) -> frozenset[LimitKey]:
        """Limits in doubt, without those of brokers that have had their time and are still silent."""
        return frozenset(key for doubt in self._of.values() if not doubt.waits for key in doubt.keys)

    def note(self, broker_id: int, keys: Iterable[LimitKey], now_s: float) -> None:
        look_s, until_s = now_s + AGAIN_S, now_s + LATE_S
        doubt = self._of.setdefault(broker_id, _Doubt(set(), look_s, until_s))
        doubt.keys.update(keys)
        doubt.look_s, doubt.until_s, doubt.waits = min(doubt.look_s, look_s), until_s, False

    def take(self, silent: Set[int], now_s: float) -> frozenset[LimitKey]:
        """Return the limits that are due to be read again. `silent`: brokers that did not answer the newest request."""
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
        """Return the time at which `take` next returns limits; infinity if none are in doubt."""
        due = (
            0.0 if doubt.waits else doubt.look_s for b, doubt in self._of.items() if not doubt.waits or b not in silent
        )
        return min(due, default=inf)
