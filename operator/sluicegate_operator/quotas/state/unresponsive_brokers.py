"""Brokers of one cluster that have not answered several requests in a row: one late answer makes no broker unreachable.

A broker is unreachable after `SILENT_LOOKS` requests without an answer and `SILENT_S` seconds. Until then its last
answer counts. Times are seconds of the caller's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SILENT_LOOKS = 3
SILENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Silence:
    """The silence of one broker. `why` is the newest reason, for users."""

    since_s: float
    looks: int
    why: str


@dataclass(frozen=True, slots=True)
class UnresponsiveBrokers:
    """The brokers that did not answer the newest request."""

    of: Mapping[int, Silence] = field(default_factory=dict)

    def after(self, silent: Mapping[int, str], now_s: float) -> "UnresponsiveBrokers":
        """Return the silences after a request. `silent` has the brokers that should have answered, with the reason."""
        return UnresponsiveBrokers(
            {broker_id: self._silence(broker_id, why, now_s) for broker_id, why in silent.items()}
        )

    def _silence(self, broker_id: int, why: str, now_s: float) -> Silence:
        before = self.of.get(broker_id, Silence(now_s, 0, why))
        return replace(before, looks=before.looks + 1, why=why)

    def unreachable(self, now_s: float) -> dict[int, str]:
        """Return the unreachable brokers, each with the newest reason."""
        return {
            broker_id: silence.why
            for broker_id, silence in self.of.items()
            if silence.looks >= SILENT_LOOKS and now_s - silence.since_s >= SILENT_S
        }
