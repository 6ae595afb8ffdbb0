"""Recorded connections under suggested limits, by part and client: the log is that of a broker's acceptors."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from audit_pipeline.reading.recorded_connections import recorded_events
from audit_pipeline.recommend.needed_rate import needed_rate
from audit_pipeline.recommend.suggestion import LimitTarget
from audit_pipeline.recommend.trial import Limits, TrialRow, tried
from audit_pipeline.what_if.attempts import Outcome
from audit_pipeline.what_if.recording import Recording, recording_of
from connection_limits.settings import QuotaSettings
from tests.support.audit.acceptors import AcceptorBench

LISTENER = "EXTERNAL"
STORMY, CALM = "10.9.0.1", "10.1.0.1"
_US = 1_000_000
FOREVER = 2**60


def recording(*clients: tuple[str, float, float | None], seed: int = 1) -> Recording:
    """A log of clients: address, when they come, and how long they stay."""
    bench = AcceptorBench(Random(seed), QuotaSettings(), (LISTENER,), 0.0)
    for ip, at_s, stays_s in clients:
        bench.client(LISTENER, ip, at_s, None, stays_s)
    bench.loop.run_until(bench.loop.now_s + 400)
    return recording_of(recorded_events(bench.rows().sort_by("seq")))


def listener(rate: int) -> Limits:
    return {LimitTarget("c", "listener", LISTENER): rate}


def never(_: str, __: int) -> bool:
    return False


def between(found: Recording, first_s: float, last_s: float) -> Callable[[str, int], bool]:
    """Whether a second is from `first_s` to `last_s` after the first arrival."""
    began_us = found.attempts[0].wall_us
    span = (began_us + first_s * _US) // _US, (began_us + last_s * _US) // _US
    return lambda _, second: span[0] <= second <= span[1]


def by_part(rows: list[TrialRow]) -> dict[tuple[str, str], TrialRow]:
    return {(row.part, row.client_ip): row for row in rows}


@pytest.mark.parametrize("seed", range(5))
def test_no_usual_connection_waits_longer_than_two_seconds_under_the_needed_rate(seed: int) -> None:
    random = Random(seed)
    pods = [(f"10.2.0.{number % 250}", random.expovariate(0.3), 300.0) for number in range(random.randrange(50, 400))]
    found = recording(*pods, seed=seed)
    seconds, counts = np.unique([attempt.wall_us // _US for attempt in found.attempts], return_counts=True)
    rate = needed_rate(seconds.astype(np.int64), counts.astype(np.int64), 2)
    rows = tried(found, listener(rate), never, 0, FOREVER)
    assert sum(row.replayed.outcomes[Outcome.ACCEPTED] for row in rows) == len(pods)
    assert 0 < max(row.replayed.delay_max_us for row in rows) <= 2_010_000
    assert max(row.recorded.delay_max_us for row in rows) < 50_000


def test_a_storm_and_those_beside_it_are_told_apart() -> None:
    storm = [(STORMY, 100 + number / 200, 0.1) for number in range(1_000)]
    found = recording((CALM, 10, 300.0), (CALM, 102, 200.0), (CALM, 106, 200.0), (CALM, 380, None), *storm)
    rows = by_part(tried(found, listener(20), between(found, 90, 95), 0, FOREVER))
    assert {place: sum(row.replayed.outcomes.values()) for place, row in rows.items()} == {
        ("storm", STORMY): 1_000,
        # One during the storm, and one that waits behind it.
        ("beside", CALM): 2,
        ("usual", CALM): 2,
    }
    stormy = rows["storm", STORMY].replayed
    assert 990 < stormy.outcomes[Outcome.ACCEPTED] <= 1_000
    assert sum(stormy.delays.values()) > 900
    assert stormy.delay_max_us > 40_000_000
    assert rows["usual", CALM].replayed.delays == {}


def test_limits_of_addresses_and_ranges_are_tried_alone() -> None:
    storm = [(STORMY, 10 + number / 100, 0.1) for number in range(300)]
    found = recording(*storm, ("10.9.0.2", 11, 100.0), (CALM, 11, 100.0), ("2001:db8::1", 11, 100.0))
    limits = {
        LimitTarget("c", "ip", STORMY): 2,
        LimitTarget("c", "cidr", "10.9.0.0/24", "Shared"): 50,
        LimitTarget("c", "cidr", "0.0.0.0/0", "PerAddress"): 5,
        LimitTarget("c", "cidr", "::/0", "PerAddress"): 5,
    }
    rows = tried(found, limits, between(found, 0, 4), 0, FOREVER)
    admitted = {(row.target, row.client_ip): row.replayed.outcomes[Outcome.ACCEPTED] for row in rows}
    assert {ip for target, ip in admitted if target == "0.0.0.0/0"} == {STORMY, "10.9.0.2", CALM}
    assert {ip for target, ip in admitted if target == "10.9.0.0/24"} == {STORMY, "10.9.0.2"}
    assert [place for place in admitted if place[0] in (STORMY, "::/0")] == [(STORMY, STORMY), ("::/0", "2001:db8::1")]
    # A second's worth is saved, and three seconds' worth comes.
    assert 6 <= admitted[STORMY, STORMY] <= 8
    assert 15 <= admitted["0.0.0.0/0", STORMY] <= 20
    assert 150 <= admitted["10.9.0.0/24", STORMY] <= 200
    assert all(row.replayed.outcomes[Outcome.REJECTED] == 0 for row in rows if row.client_ip in (CALM, "2001:db8::1"))


def test_only_connections_of_the_time_are_counted_and_the_others_use_the_rate() -> None:
    found = recording(*((CALM, 10 + number / 100, 50.0) for number in range(100)))
    middle_us = found.attempts[50].wall_us
    rows = tried(found, listener(10), never, middle_us, FOREVER)
    assert sum(rows[0].replayed.outcomes.values()) == 50
    assert rows[0].replayed.delay_max_us > 7_000_000


def test_a_log_without_these_listeners_has_no_rows() -> None:
    found = recording((CALM, 10, 1.0))
    assert tried(found, {LimitTarget("c", "listener", "OTHER"): 1}, never, 0, FOREVER) == []
    assert tried(found, {}, never, 0, FOREVER) == []
