"""A meter admits by this broker's share: what it saves, what it admits when the share moves, and when a lease ends."""

import pytest

from connection_limits.cluster.share_meter import LeaseEnd, ShareMeter

RATE = 300
EQUAL = 100_000
NOW = 5_000_000


def meter(share: int = EQUAL, reserve: int = EQUAL, lease_ms: int = 4_000, *, rate: int = RATE) -> ShareMeter:
    made = ShareMeter(11, 1_000, rate, NOW)
    made.brokers = 3
    made.use(share, reserve, lease(lease_ms), NOW)
    return made


def lease(length_ms: int) -> LeaseEnd:
    end = LeaseEnd()
    end.at_ms = NOW + length_ms
    return end


def admitted(found: ShareMeter, begin_ms: int, end_ms: int) -> int:
    """Connect as fast as the meter allows, and return the number of connections."""
    now_ms, count = begin_ms, 0
    while now_ms < end_ms:
        found.record(now_ms)
        while (delay_ms := found.delay_ms(now_ms)) and now_ms < end_ms:
            now_ms += delay_ms
        count += now_ms < end_ms
    return count


def test_a_new_meter_admits_nothing() -> None:
    found = ShareMeter(11, 1_000, RATE, NOW)
    assert admitted(found, NOW, NOW + 10_000) == 0
    assert found.share == 0


def test_a_share_is_admitted_with_the_burst_of_three_tenths_of_a_second() -> None:
    assert admitted(meter(), NOW, NOW + 10_000) == pytest.approx(1_000, abs=31)


@pytest.mark.parametrize(("rate", "share", "waits"), [(30, 10_000, False), (3, 1_000, True)])
def test_a_quiet_broker_admits_one_client_at_once_unless_the_rate_is_tiny(rate: int, share: int, waits: bool) -> None:
    found = meter(share, share, rate=rate)
    found.record(NOW)
    assert bool(found.throttle_ms(NOW)) is waits
    assert found.throttled_total == waits


def rejecting(share: int, *, rate: int = 3) -> ShareMeter:
    made = ShareMeter(11, 1_000, rate, NOW, rejects=True)
    made.brokers = 9
    made.use(share, share, lease(600_000), NOW)
    return made


def is_admitted(found: ShareMeter, now_ms: int) -> bool:
    found.record(now_ms)
    if found.throttle_ms(now_ms):
        found.unrecord(now_ms)
        return False
    return True


@pytest.mark.parametrize("share", [333, 1_000, 3_000])
def test_a_tiny_share_that_rejects_admits_its_rate(share: int) -> None:
    found = rejecting(share)
    admitted = sum(is_admitted(found, NOW + at_ms) for at_ms in range(0, 120_000, 50))
    assert admitted == pytest.approx(120 * share / 1_000, rel=0.05)


def test_a_token_that_no_client_takes_after_a_rejection_is_lost() -> None:
    found = rejecting(1_000)
    assert not is_admitted(found, NOW)
    # Nobody tries again within 11 s.
    assert [is_admitted(found, NOW + at_ms) for at_ms in (12_000, 13_000, 13_001)] == [False, True, False]


def test_a_larger_share_saves_no_tokens_twice() -> None:
    found = meter(1_000, 1_000)
    found.use(EQUAL, EQUAL, lease(4_000), NOW)
    found.record(NOW)
    assert found.delay_ms(NOW) == 0
    found.record(NOW)
    assert found.delay_ms(NOW) > 0


def test_a_smaller_share_loses_the_saved_tokens() -> None:
    found = meter()
    found.measure(NOW + 1_000)
    found.use(1_000, 1_000, lease(4_000), NOW + 1_000)
    assert admitted(found, NOW + 1_000, NOW + 3_000) <= 3


def test_the_reserve_begins_when_the_lease_ends_without_any_call() -> None:
    found = meter(EQUAL, 10_000, 4_000)
    assert admitted(found, NOW, NOW + 4_000) == pytest.approx(400, abs=31)
    assert admitted(found, NOW + 4_000, NOW + 14_000) == pytest.approx(100, abs=3)
    assert found.share == 10_000


def test_a_suspended_process_admits_nothing_by_an_old_share() -> None:
    found = meter(EQUAL, 0, 4_000)
    assert admitted(found, NOW + 60_000, NOW + 70_000) <= 1


def test_a_refused_connection_returns_its_token() -> None:
    found = meter(1_000, 1_000)
    found.record(NOW)
    found.record(NOW)
    assert found.delay_ms(NOW) > 0
    found.unrecord(NOW)
    assert (found.delay_ms(NOW), found.recorded_total) == (0, 1)


def test_a_broker_expects_at_least_an_equal_part() -> None:
    assert meter(1_000).expected_per_s == 100
    assert meter(200_000).expected_per_s == 200
    assert meter(0, 0, rate=1).expected_per_s == 1
