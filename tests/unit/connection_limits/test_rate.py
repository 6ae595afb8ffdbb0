"""Kafka's rate arithmetic: reference vectors, window alignment, expiry; the token bucket beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connection_limits.rate import Meter, TokenBucket, WindowedRate, meter
from connection_limits.settings import UNLIMITED, QuotaSettings, Strategy

NOW = 1_000_000


def admitted_at_one_instant(rate: Meter, now_ms: int, most: int = 10_000) -> tuple[int, int]:
    """Number of events that pass at `now_ms`, and the throttle of the next one."""
    for count in range(most):
        rate.record(now_ms)
        throttle_ms = rate.throttle_ms(now_ms)
        if throttle_ms:
            return count, throttle_ms
    raise AssertionError(f"{most} events were not enough")


@pytest.mark.parametrize(
    ("num", "limit", "admitted", "throttle_ms"),
    [
        (2, 5, 5, 200),
        (2, 20, 20, 50),
        (2, 30, 30, 33),
        # 66.7 and 2.5 ms: halves are rounded up.
        (2, 15, 15, 67),
        (2, 400, 400, 3),
        (11, 1, 10, 1000),
        (11, 10, 100, 100),
        (11, 30, 300, 33),
        (2, 0, 0, 1000),
        (11, 0, 0, 1000),
    ],
)
def test_reference_vectors(num: int, limit: int, admitted: int, throttle_ms: int) -> None:
    assert admitted_at_one_instant(WindowedRate(num, 1000, limit, NOW), NOW) == (admitted, throttle_ms)


def test_a_rate_equal_to_the_limit_is_no_violation() -> None:
    rate = WindowedRate(2, 1000, 5, NOW)
    for _ in range(5):
        rate.record(NOW)
    assert rate.measure(NOW) == 5
    assert rate.throttle_ms(NOW) == 0


def test_windows_begin_at_the_first_event_and_the_divisor_is_at_least_all_whole_windows() -> None:
    rate = WindowedRate(11, 1000, UNLIMITED, NOW)
    rate.record(NOW + 700)
    assert rate.measure(NOW + 700) == pytest.approx(1 / 10)
    assert rate.measure(NOW + 1699) == pytest.approx(1 / 10.999)
    assert rate.measure(NOW + 1700) == pytest.approx(1 / 10)
    assert rate.measure(NOW + 700 + 10_500) == pytest.approx(1 / 10.5)


def test_a_sample_is_dropped_when_nothing_was_recorded_in_it_for_num_windows() -> None:
    rate = WindowedRate(2, 1000, UNLIMITED, NOW)
    rate.record(NOW)
    rate.record(NOW + 900)
    # Kafka up to 3.7 dropped it at 2000 ms after its start; since 3.8 the last event counts.
    assert rate.measure(NOW + 2_899) == pytest.approx(2 / 2.899)
    assert rate.measure(NOW + 2_900) == 0


def test_the_span_may_reach_one_window_more_than_the_window_number() -> None:
    rate = WindowedRate(2, 1000, UNLIMITED, NOW)
    for at_ms in (0, 999, 1_000, 1_999, 2_000):
        rate.record(NOW + at_ms)
    assert rate.measure(NOW + 2_998) == pytest.approx(5 / 2.998)
    assert rate.measure(NOW + 2_999) == pytest.approx(3 / 1.999)


def test_a_rate_that_is_never_measured_does_not_grow() -> None:
    rate = WindowedRate(2, 1000, UNLIMITED, NOW)
    for second in range(1_000):
        rate.record(NOW + second * 1_000)
    assert rate.measure(NOW + 999_000) == 2


def test_a_burst_of_ten_windows_passes_and_is_then_paid_for() -> None:
    rate = WindowedRate(11, 1000, 10, NOW)
    for _ in range(100):
        rate.record(NOW)
        assert rate.throttle_ms(NOW) == 0
    rate.record(NOW + 5_000)
    assert rate.throttle_ms(NOW + 5_000) == 100
    # Eleven windows later the burst has aged out.
    rate.record(NOW + 16_000)
    assert rate.throttle_ms(NOW + 16_000) == 0


def test_unrecord_changes_the_current_sample_which_may_become_negative() -> None:
    rate = WindowedRate(2, 1000, 5, NOW)
    rate.record(NOW)
    rate.unrecord(NOW + 1_500)
    assert rate.measure(NOW + 1_500) == 0
    # The +1 ages out first, then the -1.
    assert rate.measure(NOW + 2_000) < 0
    assert rate.measure(NOW + 3_500) == 0


def test_a_changed_limit_keeps_what_was_recorded() -> None:
    rate = WindowedRate(2, 1000, 20, NOW)
    for _ in range(20):
        rate.record(NOW)
    rate.set_limit(30, NOW)
    assert admitted_at_one_instant(rate, NOW)[0] == 10


def test_a_token_bucket_admits_one_seconds_worth_at_once_and_then_evenly() -> None:
    rate = TokenBucket(11, 1000, 10, NOW)
    assert admitted_at_one_instant(rate, NOW) == (10, 100)
    rate.unrecord(NOW)
    assert admitted_at_one_instant(rate, NOW + 100) == (1, 100)


def test_a_token_bucket_without_a_rate_throttles_for_the_whole_window() -> None:
    assert admitted_at_one_instant(TokenBucket(11, 1000, 0, NOW), NOW) == (0, 1000)


def test_a_token_bucket_has_room_for_one_at_least_and_waits_one_window_at_most() -> None:
    rate = TokenBucket(11, 1000, 1, NOW)
    assert admitted_at_one_instant(rate, NOW) == (1, 1000)
    rate.record(NOW)
    assert rate.throttle_ms(NOW) == 1000


def test_a_newly_limited_token_bucket_has_one_seconds_tokens_and_a_raise_adds_none() -> None:
    rate = TokenBucket(11, 1000, UNLIMITED, NOW)
    for _ in range(1000):
        rate.record(NOW)
    rate.set_limit(5, NOW)
    assert admitted_at_one_instant(rate, NOW) == (5, 200)
    rate.unrecord(NOW)
    rate.set_limit(1000, NOW)
    assert admitted_at_one_instant(rate, NOW) == (0, 1)


def test_a_token_bucket_measures_like_kafka_does() -> None:
    rate = TokenBucket(2, 1000, 5, NOW)
    rate.record(NOW)
    assert rate.measure(NOW) == 1
    rate.unrecord(NOW)
    assert rate.measure(NOW) == 0


def test_the_strategy_chooses_the_meter() -> None:
    assert isinstance(meter(QuotaSettings(), 5, NOW), WindowedRate)
    assert isinstance(meter(QuotaSettings(strategy=Strategy.TOKEN_BUCKET), 5, NOW), TokenBucket)


steps = st.lists(st.tuples(st.integers(0, 3_000), st.booleans()), max_size=60)


@given(num=st.integers(1, 12), window_s=st.integers(1, 3), script=steps)
def test_the_windowed_sum_is_that_of_a_plain_list_of_samples(
    num: int, window_s: int, script: list[tuple[int, bool]]
) -> None:
    """Against a slow implementation of the definition: samples as records, everything recomputed."""
    window_ms = window_s * 1000
    rate = WindowedRate(num, window_ms, UNLIMITED, NOW)
    samples: list[list[int]] = []
    now_ms = NOW
    for pause_ms, added in script:
        now_ms += pause_ms
        value = 1 if added else -1
        if added:
            rate.record(now_ms)
        else:
            rate.unrecord(now_ms)
        if not samples or now_ms - samples[-1][0] >= window_ms:
            samples = [*samples, [now_ms, now_ms, 0]][-(num + 1) :]
        samples[-1][1] = now_ms
        samples[-1][2] += value
        samples = [s for s in samples if now_ms - s[1] < num * window_ms]
        elapsed_ms = now_ms - samples[0][0]
        whole = max(num - 1 - elapsed_ms // window_ms, 0)
        span_ms = max(elapsed_ms + whole * window_ms, 1)
        assert rate.measure(now_ms) == pytest.approx(sum(s[2] for s in samples) * 1000 / span_ms)


@given(
    strategy=st.sampled_from(list(Strategy)),
    limit=st.integers(1, 200),
    pauses=st.lists(st.integers(0, 400), min_size=1, max_size=200),
)
def test_never_more_than_the_burst_and_the_rate_when_refusals_are_taken_back(
    strategy: Strategy, limit: int, pauses: list[int]
) -> None:
    settings = QuotaSettings(strategy=strategy)
    rate = meter(settings, limit, NOW)
    now_ms, admitted = NOW, 0
    for pause_ms in pauses:
        now_ms += pause_ms
        rate.record(now_ms)
        if rate.throttle_ms(now_ms):
            rate.unrecord(now_ms)
        else:
            admitted += 1
    seconds = (now_ms - NOW) / 1000
    if strategy is Strategy.TOKEN_BUCKET:
        assert admitted <= limit * (1 + seconds) + 1
    else:
        # Kafka's bound: in each span of num windows at most num windows' worth, one more sample at the edge.
        assert admitted <= limit * (settings.quota_window_num + 1) * (1 + seconds // settings.quota_window_num)


@given(strategy=st.sampled_from(list(Strategy)), limit=st.integers(0, 50), count=st.integers(1, 300))
def test_a_throttle_is_at_most_one_window(strategy: Strategy, limit: int, count: int) -> None:
    rate = meter(QuotaSettings(strategy=strategy, quota_window_size_s=2), limit, NOW)
    for _ in range(count):
        rate.record(NOW)
        assert 0 <= rate.throttle_ms(NOW) <= 2000
