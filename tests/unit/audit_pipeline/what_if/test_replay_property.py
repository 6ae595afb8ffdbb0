"""A replay under the limits that were in force gives the decisions that the log has, at their times.

The logs are generated: the broker's acceptors, limiter and audit log serve random clients under random limits, in
virtual time, on an event loop that is late at random.
"""

from collections import Counter
from random import Random

import pytest

from audit_pipeline.reading.recorded_connections import recorded_events
from audit_pipeline.what_if.attempts import Outcome, Recording, recording_of
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.replay import replay
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import UNLIMITED, IpAction, QuotaSettings, Strategy
from tests.support.audit.acceptors import AcceptorBench
from tests.support.audit.replayed import differences

CLIENTS, PROXIED, INTERNAL = "CLIENTS", "OTHERS", "INTERNAL"
LISTENERS = ((CLIENTS,), (CLIENTS, PROXIED), (CLIENTS, INTERNAL), (CLIENTS, PROXIED, INTERNAL))
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "192.0.2.7", "2001:db8::1", "2001:db8::2")
MEMBERS = ("10.0.0.0/24", "10.0.0.0/16", "10.0.0.1", "10.1.0.1", "2001:db8::/32", "0.0.0.0/0")
LOGS, PER_TEST = 1_000, 50


def limits_of(random: Random, listeners: tuple[str, ...]) -> LimitsToTry:
    """Return random limits, each kind in some of them."""

    def maybe(low: int, high: int, share: float = 0.3) -> int:
        return random.randint(low, high) if random.random() < share else UNLIMITED

    overrides = {random.choice(ADDRESSES): random.randint(0, 5)} if random.random() < 0.3 else {}
    rates: dict[str | None, int] = {}
    if random.random() < 0.3:
        rates[random.choice((None, *ADDRESSES))] = random.randint(0, 10)

    settings = QuotaSettings(
        max_connections=maybe(3, 30),
        max_connection_creation_rate=maybe(1, 40),
        max_connections_per_ip=maybe(1, 8),
        max_connections_per_ip_overrides=overrides,
        inter_broker_listener=INTERNAL if INTERNAL in listeners else "",
        quota_window_num=random.choice((2, 3, 11)),
        strategy=random.choice(tuple(Strategy)),
        ip_action=random.choice(tuple(IpAction)),
        count_abandoned=random.random() < 0.2,
    )
    own = {
        name.lower(): (random.choice((None, random.randint(2, 12))), random.choice((None, random.randint(1, 30))))
        for name in listeners
        if random.random() < 0.4
    }
    groups: dict[str, AddressGroupLimits] = {}
    members: dict[str, list[str]] = {}
    for number in range(random.choice((0, 0, 1, 3))):
        name = f"default/group-{number}"
        groups[name] = AddressGroupLimits(
            maybe(1, 10, 0.8), maybe(1, 6, 0.4), shared=random.random() < 0.5, observe=random.random() < 0.2
        )
        members[name] = random.sample(MEMBERS, random.randint(1, 3))
    return LimitsToTry(settings, own, rates, groups, members)


def generated(seed: int) -> tuple[Recording, LimitsToTry, tuple[str, ...]]:
    """Return the log of random clients, and the limits and listeners of their broker."""
    random = Random(seed)
    listeners = random.choice(LISTENERS)
    limits = limits_of(random, listeners)
    bench = AcceptorBench(random, limits.settings_for(listeners), listeners, random.choice((0.0, 0.001, 0.01)))
    limits.enforce(bench.quotas, listeners, bench.began_ms)
    burst_s, span_s = random.random() * 4, random.choice((3.0, 8.0, 20.0))
    for _ in range(random.randint(20, 120)):
        at_s = burst_s + random.random() ** 3 * 0.3 if random.random() < 0.5 else random.random() * span_s
        patience_s = random.random() * 2 if random.random() < 0.4 else None
        stays_s = random.choice((None, 0.0, random.random(), random.random() * 10))
        bench.client(random.choice(listeners), random.choice(ADDRESSES), at_s, patience_s, stays_s)
    if random.random() < 0.2:
        bench.pause(random.choice(listeners), burst_s + random.random())
    bench.loop.run_until(bench.loop.now_s + span_s + random.choice((0.0, 5.0, 30.0)))
    return recording_of(recorded_events(bench.rows())), limits, listeners


@pytest.mark.parametrize("first", range(0, LOGS, PER_TEST))
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
