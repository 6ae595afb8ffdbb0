import pytest

from connection_limits.rate import TokenBucket
from demo.allowance import allowance
from demo.checks import Expectations, Held, accepted_of


def test_a_listener_admits_a_second_that_it_saved_its_rate_and_one_that_waits() -> None:
    assert allowance(50, 9.0, acceptor_waits=True).most == 50 * 10 + 1
    assert allowance(50, 9.0, acceptor_waits=True).sentence == "50/s x 10 s + 1"


def test_an_address_admits_no_connection_that_waits() -> None:
    assert allowance(5, 9.0, acceptor_waits=False).most == 50


@pytest.mark.parametrize("rate", [1, 5, 50, 200])
@pytest.mark.parametrize("step_ms", [1, 7, 250])
def test_no_bucket_admits_more_than_the_bound(rate: int, step_ms: int) -> None:
    bucket, seconds = TokenBucket(11, 1000, rate, 0), 9.0
    now_ms, admitted = 0, 0
    while now_ms <= seconds * 1000:
        bucket.record(now_ms)
        wait_ms = bucket.throttle_ms(now_ms)
        now_ms += max(wait_ms, step_ms)
        admitted += 1
    assert admitted <= allowance(rate, seconds, acceptor_waits=True).most + 1


def test_a_limit_that_is_not_held_is_missed_with_its_numbers() -> None:
    expectations = Expectations()
    allowed = allowance(5, 9.0, acceptor_waits=False)
    expectations.expect_held(Held("with the limit", "ip 127.0.1.7", 5, 50, 2000, allowed))
    assert expectations.missed == []
    expectations.expect_held(Held("with the limit", "ip 127.0.1.7", 5, 51, 2000, allowed))
    assert expectations.missed == [
        "with the limit: ip 127.0.1.7 admitted 51 connections; its limit of 5/s allows at most 50 (5/s x 10 s)"
    ]


def test_accepted_of_all_and_of_one_source() -> None:
    report = {"accepted": 7, "attempts": 9, "sources": {"127.0.1.7": {"accepted": 2, "attempts": 3}}}
    assert accepted_of(report) == (7, 9)
    assert accepted_of(report, "127.0.1.7") == (2, 3)
