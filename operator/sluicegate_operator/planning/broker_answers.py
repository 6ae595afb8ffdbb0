"""What the brokers of one cluster have said over several looks, so that one late answer is no verdict.

A broker counts as silent for good only after `SILENT_LOOKS` looks in a row and `SILENT_S` seconds; until then what it
said last still holds, and is compared with what is wanted now. Times are seconds of the caller's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sluicegate_operator.planning.quotas import ObservedLimits

SILENT_LOOKS = 3
SILENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Silence:
    """`why` is the newest reason, for people."""

    since_s: float
    looks: int
    why: str


@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """`last`: the newest answer of each broker; `silences`: of those that did not answer the newest look."""

    last: Mapping[int, ObservedLimits] = field(default_factory=dict)
    silences: Mapping[int, Silence] = field(default_factory=dict)

    def after(self, answers: Mapping[int, ObservedLimits], silent: Mapping[int, str], now_s: float) -> "BrokerAnswers":
        """`silent` are the brokers that should have answered, with why they did not. Those in neither could not be
        expected to (no address, or not ready by their pod): what they said before was another life of theirs."""
        kept = {broker_id: said for broker_id, said in self.last.items() if broker_id in silent}
        silences = {broker_id: self._silence(broker_id, why, now_s) for broker_id, why in silent.items()}
        return BrokerAnswers({**kept, **answers}, silences)

    def _silence(self, broker_id: int, why: str, now_s: float) -> Silence:
        before = self.silences.get(broker_id, Silence(now_s, 0, why))
        return replace(before, looks=before.looks + 1, why=why)

    def unreachable(self, now_s: float) -> dict[int, str]:
        """Why, for each broker that has been silent for so long that it counts."""
        return {
            broker_id: silence.why
            for broker_id, silence in self.silences.items()
            if silence.looks >= SILENT_LOOKS and now_s - silence.since_s >= SILENT_S
        }

    def observed(self, now_s: float) -> dict[int, ObservedLimits]:
        """What planning.quotas.lagging_brokers takes."""
        lost = self.unreachable(now_s)
        return {broker_id: said for broker_id, said in self.last.items() if broker_id not in lost}
