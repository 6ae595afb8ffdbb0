"""Brokers of one cluster that have not answered several requests in a row: one late answer makes no broker unreachable.

A broker is unreachable after `SILENT_REQUESTS` requests without an answer and `SILENT_S` seconds. Until then its last
answer counts. Times are seconds of the caller's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SILENT_REQUESTS = 3
SILENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Silence:
    """The time since which one broker has not answered, and the number of requests to it meanwhile.

    `why` is the newest reason, for users.
    """

    since_s: float
    requests: int
    why: str


@dataclass(frozen=True, slots=True)
class UnresponsiveBrokers:
    """Remembers which brokers of a cluster did not answer the newest request, and since when."""

    of: Mapping[int, Silence] = field(default_factory=dict)

    def after(self, silent: Mapping[int, str], now_s: float) -> "UnresponsiveBrokers":
        """Return the silent brokers after another request.

        `silent` has the brokers that should have answered, with the reason.
        """
        return UnresponsiveBrokers(
            {broker_id: self._silence(broker_id, why, now_s) for broker_id, why in silent.items()}
        )

    def _silence(self, broker_id: int, why: str, now_s: float) -> Silence:
        before = self.of.get(broker_id, Silence(now_s, 0, why))
        return replace(before, requests=before.requests + 1, why=why)

    def unreachable(self, now_s: float) -> dict[int, str]:
        """Return the brokers that have been silent for long, each with the newest reason."""
        return {
            broker_id: silence.why
            for broker_id, silence in self.of.items()
            if silence.requests >= SILENT_REQUESTS and now_s - silence.since_s >= SILENT_S
        }
