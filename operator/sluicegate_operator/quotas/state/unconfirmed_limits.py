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
class _Unconfirmed:
    """Limits whose change a broker has not answered. `waits`: the time has passed, but the broker is still silent.

    `read_at_s` is when the limits are read again.
    """

    keys: set[LimitKey]
    read_at_s: float
    until_s: float
    waits: bool = False


class UnconfirmedLimits:
    """Limits of one cluster that a broker may have or not, because it did not answer the request to change them.

    A broker has each limit at most once.
    """

    def __init__(self) -> None:
        self._of: dict[int, _Unconfirmed] = {}

    @property
    def keys(self) -> frozenset[LimitKey]:
        return frozenset(key for limits in self._of.values() for key in limits.keys)

    @property
    def keys_awaited(self) -> frozenset[LimitKey]:
        """The limits in doubt, without those of brokers that are still silent LATE_S after the change."""
        return frozenset(key for limits in self._of.values() if not limits.waits for key in limits.keys)

    def note(self, broker_id: int, keys: Iterable[LimitKey], now_s: float) -> None:
        read_at_s, until_s = now_s + AGAIN_S, now_s + LATE_S
        limits = self._of.setdefault(broker_id, _Unconfirmed(set(), read_at_s, until_s))
        limits.keys.update(keys)
        limits.read_at_s, limits.until_s, limits.waits = min(limits.read_at_s, read_at_s), until_s, False

    def take(self, silent: Set[int], now_s: float) -> frozenset[LimitKey]:
        """Return the limits that are due to be read again. `silent`: brokers that did not answer the newest request."""
        taken: set[LimitKey] = set()
        for broker_id, limits in list(self._of.items()):
            if limits.waits and broker_id not in silent:
                limits.read_at_s, limits.until_s, limits.waits = now_s, now_s + LATE_S, False
            if limits.waits or now_s < limits.read_at_s:
                continue
            taken |= limits.keys
            if now_s < limits.until_s:
                limits.read_at_s = min(now_s + AGAIN_S, limits.until_s)
            elif broker_id in silent:
                limits.waits = True
            else:
                del self._of[broker_id]
        return frozenset(taken)

    def next_read_s(self, silent: Set[int]) -> float:
        """Return the time at which `take` next returns limits; infinity if none are in doubt."""
        due = (
            0.0 if limits.waits else limits.read_at_s
            for b, limits in self._of.items()
            if not limits.waits or b not in silent
        )
        return min(due, default=inf)
