"""A log records the limits in force, also when they change: a replay under them gives the decisions of the log.

The broker's acceptors, limiter and audit log serve random clients in virtual time. Limits of all kinds change
meanwhile: settings, rates of addresses, groups and their members, adaptive rates, listeners.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace as replaced
from random import Random
from typing import Any

import pytest

from audit_pipeline.reading.recorded_connections import recorded_events, recorded_limits
from audit_pipeline.what_if.attempts import Outcome
from audit_pipeline.what_if.limits_in_force import LimitsInForce, limits_in_force
from audit_pipeline.what_if.recording import Recording, recording_of
from audit_pipeline.what_if.replay import replay
from connection_limits.groups.connection_group import NO_LIMITS, AddressGroupLimits
from connection_limits.recorded.rows import LimitEvent
from connection_limits.settings import Objective, QuotaSettings
from tests.support.audit.acceptors import AcceptorBench
from tests.support.audit.random_limits import ADDRESSES, INTERNAL, LISTENERS, MEMBERS, limits_of, random_clients
from tests.support.audit.random_shares import RandomShares
from tests.support.audit.replayed import FIRST_SEEDS, PER_TEST, differences

FOUND = (900_297,)
"""Seeds of other logs that have found a fault."""
GROUPS = ("default/group-0", "default/group-1", "other")


class Changes:
    """Changes the limits of a bench at random times, by the methods that a broker has for it."""

    def __init__(self, random: Random, bench: AcceptorBench, listeners: tuple[str, ...]) -> None:
        self.random = random
        self.bench = bench
        self.listeners = listeners

    def plan(self, span_s: float) -> None:
        kinds: tuple[Callable[[], None], ...] = (self._settings, self._ip_rate, self._group, self._member, self._adapt)
        for _ in range(self.random.randint(1, 12)):
            self.bench.loop.call_later(self.random.random() * span_s, self.random.choice(kinds))
        if self.random.random() < 0.4:
            # An objective, and the decisions of every half second that follow.
            self.bench.loop.call_later(self.random.random(), self._objective)
            for half_s in range(1, int(span_s * 2)):
                self.bench.loop.call_later(half_s / 2 + 1, self._adapt)
        if len(self.listeners) > 1 and self.random.random() < 0.2:
            name = self.random.choice(self.listeners)
            self.bench.loop.call_later(self.random.random() * span_s, lambda: self.bench.close_listener(name))

    def _with_fixed(self, settings: QuotaSettings) -> QuotaSettings:
        """Return settings with the values that cannot change while a broker runs."""
        now = self.bench.quotas.settings
        return replaced(
            settings,
            inter_broker_listener=now.inter_broker_listener,
            quota_window_num=now.quota_window_num,
            strategy=now.strategy,
            ip_action=now.ip_action,
            count_abandoned=now.count_abandoned,
            **self._scopes(),
        )

    def _scopes(self) -> dict[str, Any]:
        random = self.random
        if random.random() < 0.6:
            return {}
        listeners = frozenset(name for name in self.listeners if random.random() < 0.5)
        return {"cluster_wide": random.random() < 0.6, "cluster_wide_listeners": listeners}

    def _settings(self) -> None:
        limits = limits_of(self.random, self.listeners)
        self.bench.update_limits(self._with_fixed(limits.settings_for(self.listeners)))

    def _objective(self) -> None:
        random, now = self.random, self.bench.quotas.settings
        objective = Objective(random.randint(5, 50), random.randint(1, 4))
        if random.random() < 0.5:
            self.bench.update_limits(
                replaced(now, objective=objective, max_connection_creation_rate=random.randint(5, 60))
            )
        else:
            name = random.choice(self.listeners)
            rates = {**now.listener_max_connection_creation_rate, name: random.randint(5, 60)}
            self.bench.update_limits(
                replaced(now, listener_objectives={name: objective}, listener_max_connection_creation_rate=rates)
            )

    def _adapt(self) -> None:
        delays_ms = [self.random.random() * 80 for _ in range(self.random.choice((0, 200)))]
        self.bench.adapt(self.random.random() * 500, delays_ms)

    def _ip_rate(self) -> None:
        ip = self.random.choice((None, *ADDRESSES))
        self.bench.update_ip_rate(ip, self.random.choice((None, self.random.randint(0, 10))))

    def _group(self) -> None:
        random = self.random
        shared = random.random() < 0.5
        limits = AddressGroupLimits(
            random.randint(1, 10),
            random.randint(1, 6),
            shared=shared,
            observe=random.random() < 0.2,
            cluster_wide=shared and random.random() < 0.5,
        )
        self.bench.groups.set_limits(random.choice(GROUPS), random.choice((NO_LIMITS, limits, limits)))

    def _member(self) -> None:
        number = self.random.choice((None, 1.0, 7.0, 8.0))
        self.bench.groups.set_member(self.random.choice(GROUPS), self.random.choice(MEMBERS), number)


def bench_of(seed: int) -> AcceptorBench:
    """Return a bench that has served random clients under limits that change."""
    random = Random(seed)
    listeners = random.choice(LISTENERS)
    limits = limits_of(random, listeners)
    bench = AcceptorBench(
        random,
        limits.settings_for(listeners),
        listeners,
        random.choice((0.0, 0.001, 0.01, 1.0)),
        is_busy=random.random() < 0.3,
    )
    limits.enforce(bench.quotas, listeners, bench.began_ms)
    bench.record_limits()
    span_s = random.choice((3.0, 8.0, 20.0))
    random_clients(random, bench, tuple(name for name in listeners if name != INTERNAL) or listeners, span_s)
    Changes(random, bench, listeners).plan(span_s)
    if random.random() < 0.6:
        RandomShares(random, bench, span_s)
    bench.loop.run_until(bench.loop.now_s + span_s + random.choice((0.0, 5.0, 30.0)))
    bench.stop()
    return bench


def generated(seed: int) -> tuple[Recording, LimitsInForce]:
    """Return a log, and the limits that it records."""
    bench = bench_of(seed)
    found = limits_in_force(recorded_limits(bench.rows("connection_limit")))
    assert found is not None
    return recording_of(recorded_events(bench.rows())), found


@pytest.mark.parametrize("seed", FOUND)
def test_a_log_that_was_once_replayed_differently_is_replayed_as_it_was(seed: int) -> None:
    recording, limits = generated(seed)
    replay(recording, limits)
    assert differences(recording) == []


@pytest.mark.parametrize("first", FIRST_SEEDS)
def test_recorded_limits_give_the_decisions_of_the_log(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        recording, limits = generated(seed)
        replay(recording, limits)
        assert differences(recording) == [], f"seed {seed}"


def test_the_generated_logs_have_every_outcome_and_every_kind_of_change() -> None:
    outcomes, events = Counter[Outcome](), Counter[tuple[LimitEvent, str | None]]()
    for seed in range(100):
        recording, limits = generated(seed)
        outcomes.update(attempt.recorded.outcome for attempt in recording.attempts)
        events.update((row.event, row.kind) for change in limits.changes for row in change.rows)
    assert set(outcomes) == {Outcome.ACCEPTED, Outcome.REJECTED, Outcome.LEFT}
    assert min(outcomes.values()) > 5
    assert events.keys() >= {
        (LimitEvent.SET, "configured"),
        (LimitEvent.SET, "adaptive"),
        (LimitEvent.SET, "share"),
        (LimitEvent.SET, None),
        (LimitEvent.REMOVED, "configured"),
        (LimitEvent.REMOVED, None),
        (LimitEvent.COUNTED, None),
        (LimitEvent.CLOSED, None),
    }
