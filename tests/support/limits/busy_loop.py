"""An event loop in virtual time, which new connections and established clients share. Limits are the real quotas.

Time advances by a millisecond at a time. Each brings work, in milliseconds of the event loop, and the loop does one
millisecond of it. A probe waits for all work that was there when it was sent.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.adaptive.control import INTERVAL_MS, Move
from connection_limits.adaptive.delays import PROBE_MS
from connection_limits.adaptive_rates import AdaptiveRates
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import UNLIMITED, Objective, QuotaSettings, Strategy

LISTENER, ADDRESS = "EXTERNAL", "10.0.0.1"
_ACCEPTS_MAX_MS = 100.0
"""The acceptor is part of the loop: it accepts nothing while so much work waits."""
_PATIENCE_MS = 1_000
"""A client gives up after this time."""
_PAUSE_MS, _PAUSES_PER_S = 25.0, 0.1
"""Pauses of the process, such as garbage collections."""

Curve = Callable[[int], float]
"""A quantity at a time in milliseconds."""


@dataclass(frozen=True, slots=True)
class Second:
    """A second of the simulation."""

    at_ms: int
    limit: int
    created: int
    why: Move | None


@dataclass(slots=True)
class BusyLoop:
    """A simulated event loop. `cost_ms` is the work of one new connection.

    Without an objective, the rate is fixed at `max_rate`.
    """

    cost_ms: float
    max_rate: int = UNLIMITED
    objective: Objective | None = None
    seed: int = 0
    now_ms: int = 0
    seconds: list[Second] = field(default_factory=list)
    delays: list[tuple[int, float]] = field(default_factory=list)

    def run(self, duration_ms: int, attempts_per_s: Curve, own_load: Curve) -> None:
        """Simulate: attempts to connect a second, and the share of the loop that established clients use."""
        chance = random.Random(self.seed)
        objectives = {} if self.objective is None else {LISTENER: self.objective}
        quotas = ConnectionQuotas(
            QuotaSettings(
                listener_max_connection_creation_rate={LISTENER: self.max_rate},
                listener_objectives=objectives,
                strategy=Strategy.TOKEN_BUCKET,
            ),
            self.now_ms,
        )
        quotas.add_listener(LISTENER, self.now_ms)
        listener = quotas.listeners[LISTENER]
        rates = AdaptiveRates(quotas, self.now_ms)
        work = newcomers_ms = waiting = 0.0
        probe_done_ms = created = decided = 0
        began_ms = self.now_ms
        for now_ms in range(began_ms, began_ms + duration_ms):
            attempts = attempts_per_s(now_ms)
            waiting = min(waiting + attempts / 1000, max(attempts * _PATIENCE_MS / 1000, 1.0))
            while work < _ACCEPTS_MAX_MS and (waiting >= 1 or listener.waiting is not None):
                if listener.waiting is None:
                    waiting -= 1
                    outcome = quotas.on_accepted(LISTENER, ADDRESS, now_ms).outcome
                else:
                    outcome = quotas.on_wait_over(LISTENER, ADDRESS, now_ms).outcome
                if outcome is not AcceptOutcome.ADMIT:
                    break
                work += self.cost_ms
                newcomers_ms += self.cost_ms
            work += own_load(now_ms) * chance.expovariate(1.0)
            if chance.random() < _PAUSES_PER_S / 1000:
                work += _PAUSE_MS
            work = max(work - 1.0, 0.0)
            if now_ms % PROBE_MS == 0 and now_ms >= probe_done_ms:
                self.delays.append((now_ms, work))
                rates.add_delay(work)
                probe_done_ms = now_ms + ceil(work)
            if (now_ms + 1) % INTERVAL_MS == 0:
                rates.decide(newcomers_ms, now_ms + 1)
                newcomers_ms = 0.0
                decided += 1
                if decided % (1000 // INTERVAL_MS) == 0:
                    self._note(now_ms + 1, quotas, listener.admitted_total - created)
                    created = listener.admitted_total
        self.now_ms = began_ms + duration_ms

    def _note(self, now_ms: int, quotas: ConnectionQuotas, created: int) -> None:
        limit = quotas.listeners[LISTENER].rate_limit
        why = None if limit.adaptive is None else limit.adaptive.why
        self.seconds.append(Second(now_ms, limit.meter.limit, created, why))

    def p99_ms(self, from_ms: int, to_ms: int) -> float:
        """Return the p99 of the probes of that time."""
        found = sorted(delay for at_ms, delay in self.delays if from_ms <= at_ms < to_ms)
        return found[ceil(len(found) * 0.99) - 1]

    def created_per_s(self, from_ms: int, to_ms: int) -> float:
        found = [second.created for second in self.seconds if from_ms < second.at_ms <= to_ms]
        return sum(found) / len(found)

    def limits(self, from_ms: int, to_ms: int) -> list[int]:
        return [second.limit for second in self.seconds if from_ms < second.at_ms <= to_ms]
