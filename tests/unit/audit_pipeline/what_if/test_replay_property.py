"""A replay under the limits that were in force gives the decisions that the log has, at their times.

The logs are generated: the broker's acceptors, limiter and audit log serve random clients under random limits, in
virtual time, on an event loop that is late at random.
"""

from collections import Counter
from random import Random

import pytest

from audit_pipeline.reading.recorded_connections import recorded_events
from audit_pipeline.what_if.attempts import Outcome
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.recording import Recording, recording_of
from audit_pipeline.what_if.replay import replay
from tests.support.audit.acceptors import AcceptorBench
from tests.support.audit.random_limits import LISTENERS, limits_of, random_clients
from tests.support.audit.replayed import FIRST_SEEDS, PER_TEST, differences


def generated(seed: int) -> tuple[Recording, LimitsToTry, tuple[str, ...]]:
    """Return the log of random clients, and the limits and listeners of their broker."""
    random = Random(seed)
    listeners = random.choice(LISTENERS)
    limits = limits_of(random, listeners)
    bench = AcceptorBench(random, limits.settings_for(listeners), listeners, random.choice((0.0, 0.001, 0.01)))
    limits.enforce(bench.quotas, listeners, bench.began_ms)
    span_s = random.choice((3.0, 8.0, 20.0))
    random_clients(random, bench, listeners, span_s)
    bench.loop.run_until(bench.loop.now_s + span_s + random.choice((0.0, 5.0, 30.0)))
    return recording_of(recorded_events(bench.rows())), limits, listeners


@pytest.mark.parametrize("first", FIRST_SEEDS)
def test_the_limits_in_force_give_the_decisions_of_the_log(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        recording, limits, listeners = generated(seed)
        replay(recording, limits, listeners)
        assert differences(recording) == [], f"seed {seed}"


def test_the_generated_logs_have_every_outcome_and_every_kind_of_limit() -> None:
    outcomes, limits = Counter[Outcome](), set[str]()
    for seed in range(100):
        recording, _, _ = generated(seed)
        outcomes.update(attempt.recorded.outcome for attempt in recording.attempts)
        limits |= {attempt.recorded.limit.key for attempt in recording.attempts if attempt.recorded.limit is not None}
    assert set(outcomes) == set(Outcome)
    assert min(outcomes.values()) > 5
    assert limits >= {
        "max.connections",
        "max.connection.creation.rate",
        "max.connections.per.ip",
        "connection_creation_rate",
        "max_connections",
        "listener.name.clients.max.connections",
        "listener.name.clients.max.connection.creation.rate",
    }
