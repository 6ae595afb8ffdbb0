"""The adaptive rates of a ConnectionQuota on its brokers, from answers to GET /connection-limits?held=true. Pure.

Brokers move such a rate every half second. A status that followed each move would notify all its watchers each time.
So it keeps a rate that differs by less than a factor of 1.5 and has not reached a bound.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sluicegate_operator.api.models.parts.adaptive_rate import ADAPTED_BROKERS_MAX, AdaptedRates, BrokerRate
from sluicegate_operator.api.schema.metadata import INT_MAX

_KEPT = 1.5
"""A rate is written again if it is larger or smaller than the written one by this factor."""
_NO_LIMIT = INT_MAX
"""The rate that stands for no limit, in Kafka and in a status."""
WORDS_MAX = 5
"""Maximum number of brokers that an Event names."""


@dataclass(frozen=True, slots=True)
class ReportedRate:
    """An adaptive rate, as a broker reports it with its bounds.

    `unchanged_s` has passed since the broker changed it last.
    """

    rate: int
    min_rate: int
    max_rate: int
    reason: str
    unchanged_s: float

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "ReportedRate":
        """Parse the report on one adaptive rate in a broker's answer.

        Raises KeyError, TypeError and ValueError for any other document.
        """
        adaptive = document["adaptive"]
        return cls(
            _limit(document["connection_creation_rate"]),
            int(adaptive["min_rate"]),
            _limit(adaptive["max_rate"]),
            str(adaptive["reason"]),
            float(adaptive["unchanged_s"]),
        )

    def is_near(self, written: int) -> bool:
        """Return whether a status may keep `written` for this rate.

        A rate that oscillates at a bound is written once: when it reaches the bound.
        """
        if self.rate == written:
            return True
        if self.rate in (self.min_rate, self.max_rate) and self.max_rate >= self.min_rate * _KEPT:
            return False
        return written / _KEPT < self.rate < written * _KEPT


def _limit(reported: int | None) -> int:
    """Return a rate as a broker reports it: None for no limit."""
    return _NO_LIMIT if reported is None else int(reported)


def adapted(
    reported: Mapping[int, ReportedRate], silent: Collection[int], old: AdaptedRates | None, now: datetime
) -> AdaptedRates | None:
    """Return the part of a ConnectionQuota's status about the brokers' adaptive rates; None if none is known.

    `old` is the present status. Brokers that are `silent` keep their rates in it.
    """
    before = {one.broker_id: one for one in old.brokers} if old is not None else {}
    known_of = {broker_id for broker_id in silent if broker_id in before} | reported.keys()
    if not known_of:
        return None
    rates: list[BrokerRate] = []
    for broker_id in sorted(known_of)[:ADAPTED_BROKERS_MAX]:
        found, known = reported.get(broker_id), before.get(broker_id)
        if known is not None and (found is None or found.is_near(known.rate)):
            rates.append(known)
        elif found is not None:
            since = now - timedelta(seconds=found.unchanged_s)
            rates.append(BrokerRate(broker_id=broker_id, rate=found.rate, reason=found.reason, since=since))
    lowest, highest = min(one.rate for one in rates), max(one.rate for one in rates)
    return AdaptedRates(summary=_range(lowest, highest), brokers=rates)


def _range(lowest: int, highest: int) -> str:
    if lowest == highest or highest == _NO_LIMIT:
        return " to ".join(dict.fromkeys((_shown(lowest), _shown(highest))))
    return f"{lowest} to {highest}/s"


def _shown(rate: int) -> str:
    return "unlimited" if rate == _NO_LIMIT else f"{rate}/s"


def moved_words(before: AdaptedRates | None, after: AdaptedRates | None) -> str:
    """Return the adaptive rates that differ from those of the previous status, in words; empty if none does."""
    old = {one.broker_id: one.rate for one in before.brokers} if before is not None else {}
    new = after.brokers if after is not None else []
    # A rate that was never written before is the maximum of a quota that has just come into force.
    moved = [one for one in new if one.broker_id in old and one.rate != old[one.broker_id]]
    words = [
        f"broker {one.broker_id} {_shown(old[one.broker_id])} -> {_shown(one.rate)} ({one.reason})" for one in moved
    ]
    return "; ".join(words[:WORDS_MAX] + ["..."] * (len(words) > WORDS_MAX))
