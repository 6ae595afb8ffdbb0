"""Quotas of bytes and request time in virtual time: Kafka's vectors, shared buckets, live changes."""

from collections.abc import Mapping

import pytest

from broker_runtime.client_quotas.ladder import Entity
from broker_runtime.client_quotas.managed_quota import SHOWN_MAX, Windows
from broker_runtime.client_quotas.rate_quota import RateQuota, fetch_quota, produce_quota, request_quota

WINDOWS = Windows(num=11, size_ms=1000, buckets_max=100)
ANY_CLIENT: Entity = (("client-id", None),)
ANY_USER: Entity = (("user", None),)


def quota(entities: Mapping[Entity, float], windows: Windows = WINDOWS) -> RateQuota:
    return produce_quota(windows, lambda: {each: {"producer_byte_rate": value} for each, value in entities.items()})


def test_a_new_bucket_admits_ten_windows_at_once() -> None:
    limited = quota({ANY_CLIENT: 1000})
    assert limited.record(("u", "exact"), 10_000, 0) == 0
    # A rate of 2,000 over ten seconds: (2,000 - 1,000) / 1,000 of ten seconds.
    assert limited.record(("u", "double"), 20_000, 0) == 10_000
    # The throttle time of bytes is not limited.
    assert limited.record(("u", "huge"), 1_000_000, 0) == 990_000


@pytest.mark.parametrize(("num", "limit", "size", "throttle_ms"), [(2, 5, 6, 200), (2, 20, 21, 50), (2, 30, 31, 33)])
def test_the_vectors_of_rates(num: int, limit: float, size: int, throttle_ms: int) -> None:
    limited = quota({ANY_CLIENT: limit}, Windows(num, 1000, 10))
    assert limited.record(("u", "c"), size, 0) == throttle_ms


def test_a_client_that_waits_as_told_keeps_the_quota() -> None:
    limited = quota({ANY_CLIENT: 100_000})
    now_ms = total = 0
    while now_ms < 300_000:
        total += 30_000
        now_ms += limited.record(("u", "c"), 30_000, now_ms) + 1
    assert total * 1000 / now_ms == pytest.approx(100_000, rel=0.05)


def test_callers_share_a_bucket_by_the_level_of_their_quota() -> None:
    by_client = quota({ANY_CLIENT: 1000})
    assert by_client.record(("u", "c"), 10_000, 0) == 0
    assert by_client.record(("other", "c"), 10_000, 0) > 0
    assert by_client.record(("u", "other"), 10_000, 0) == 0
    by_user = quota({ANY_USER: 1000})
    assert by_user.record(("u", "c"), 10_000, 0) == 0
    assert by_user.record(("u", "other"), 10_000, 0) > 0
    assert by_user.record(("other", "c"), 10_000, 0) == 0


def test_a_caller_without_a_limit_has_no_bucket() -> None:
    limited = quota({(("client-id", "c"),): 1000})
    assert limited.record(("u", "other"), 1_000_000, 0) == 0
    assert limited.record(("u", ""), 1_000_000, 0) == 0
    assert limited.window_units(("u", "other")) is None
    assert len(limited.buckets) == 0


def test_a_changed_quota_applies_to_what_was_recorded() -> None:
    values = {ANY_CLIENT: 1000.0}
    limited = quota(values)
    assert limited.record(("u", "c"), 10_000, 0) == 0
    values[ANY_CLIENT] = 500.0
    limited.changed()
    assert limited.throttle_ms(("u", "c"), 0) == 10_000
    values[ANY_CLIENT] = 2000.0
    limited.changed()
    assert limited.throttle_ms(("u", "c"), 0) == 0
    values.clear()
    limited.changed()
    assert limited.record(("u", "c"), 1 << 30, 0) == 0


def test_bytes_that_are_taken_back_do_not_count() -> None:
    limited = fetch_quota(WINDOWS, lambda: {ANY_CLIENT: {"consumer_byte_rate": 1000}})
    assert limited.record(("u", "c"), 20_000, 0) == 10_000
    limited.correct(("u", "c"), -20_000, 0)
    assert limited.throttle_ms(("u", "c"), 0) == 0
    assert limited.record(("u", "c"), 10_000, 0) == 0


def test_a_fetch_may_have_the_bytes_of_all_whole_windows() -> None:
    limited = fetch_quota(WINDOWS, lambda: {ANY_CLIENT: {"consumer_byte_rate": 1000}})
    most = limited.window_units(("u", "c"))
    assert most == 10_000
    assert limited.record(("u", "c"), most, 0) == 0


def test_request_time_is_a_share_of_a_thread_and_throttles_for_one_window_at_most() -> None:
    limited = request_quota(WINDOWS, lambda: {ANY_CLIENT: {"request_percentage": 50}})
    # Half of ten seconds, in microseconds.
    assert limited.record(("u", "c"), 5_000_000, 0) == 0
    assert limited.record(("u", "c"), 250_000, 0) == 500
    assert limited.record(("u", "c"), 5_000_000, 0) == 1000


def test_a_flood_of_client_ids_shares_one_bucket_and_leaves_others_alone() -> None:
    limited = quota({ANY_CLIENT: 1000}, Windows(11, 1000, 3))
    for name in ("a", "b", "c"):
        assert limited.record(("u", name), 10_000, 0) == 0
    assert limited.record(("u", "d"), 10_000, 1) == 0
    assert limited.record(("u", "e"), 10_000, 1) == 10_000
    # From the shared bucket, no caller is throttled for longer than it is remembered.
    assert limited.record(("u", "f"), 1_000_000, 1) == 11_000
    assert limited.throttle_ms(("u", "g"), 1) == 11_000
    assert limited.throttle_ms(("u", "a"), 1) == 0
    assert (len(limited.buckets), limited.figures.shared_total) == (3, 3)
    # The buckets of idle callers are as good as new after eleven windows, and give their places to others.
    assert limited.record(("u", "h"), 10_000, 11_000) == 0
    assert limited.record(("u", "h"), 10_000, 11_000) == 10_000
    assert limited.throttle_ms(("u", "i"), 11_000) == 0


def test_a_bucket_expires_after_an_hour() -> None:
    limited = quota({ANY_CLIENT: 1000})
    limited.record(("u", "a"), 1, 0)
    limited.record(("u", "b"), 1, 3_599_999)
    assert len(limited.buckets) == 2
    limited.record(("u", "c"), 1, 3_600_000)
    assert limited.buckets.get(("", "a")) is None
    assert len(limited.buckets) == 2


def test_metrics_show_a_limited_number_of_throttled_callers() -> None:
    limited = quota({ANY_CLIENT: 1000}, Windows(11, 1000, 10 * SHOWN_MAX))
    for number in range(3 * SHOWN_MAX):
        throttle_ms = limited.record(("u", f"c{number}"), 20_000, 0)
        limited.note_throttled(("u", f"c{number}"), throttle_ms)
    shown = list(limited.shown())
    assert len(shown) == SHOWN_MAX
    (name, value, meter) = shown[-1]
    assert (name, value) == (("", f"c{3 * SHOWN_MAX - 1}"), 1000)
    assert (meter.throttle_ms_total, meter.per_second(0)) == (10_000, 2000)
    assert limited.figures.throttled_total == 3 * SHOWN_MAX
    assert limited.figures.throttle_ms_total == 3 * SHOWN_MAX * 10_000


def test_the_cache_of_limits_is_limited() -> None:
    limited = quota({(("client-id", "c"),): 1000}, Windows(11, 1000, 4))
    for number in range(100):
        limited.record(("u", f"c{number}"), 1, 0)
    assert len(limited._limits) <= 4


def test_long_client_ids_take_no_more_memory_than_short_ones() -> None:
    name = "x" * 30_000
    limited = quota({ANY_CLIENT: 1000, (("client-id", name),): 5000})
    assert limited.record(("u", name), 50_000, 0) == 0
    assert limited.record(("u", name), 5_000, 0) == 1000
    # Client ids with the same beginning share a bucket, and each has its own quota.
    assert limited.record(("u", name + "y"), 0, 0) == 45_000
    assert not limited._limits
    assert limited.buckets.get(("", "x" * 255)) is not None
