import pytest

from demo.allowance import allowance
from demo.checks import Expectations, Held, accepted_of


def test_a_listener_admits_its_window_and_one_more_each_second() -> None:
    assert allowance(50, 9.0, acceptor_waits=True).most == 50 * 12 + 10
    assert allowance(50, 9.0, acceptor_waits=True).sentence == "50/s x 12 s + 10"


def test_an_address_admits_its_window_only() -> None:
    assert allowance(5, 9.0, acceptor_waits=False).most == 60


def test_the_bound_is_not_stretched_beyond_the_window() -> None:
    with pytest.raises(ValueError, match="up to 10 s"):
        allowance(50, 10.5, acceptor_waits=True)


def test_a_limit_that_is_not_held_is_missed_with_its_numbers() -> None:
    expectations = Expectations()
    allowed = allowance(5, 9.0, acceptor_waits=False)
    expectations.expect_held(Held("with the limit", "ip 127.0.1.7", 5, 60, 2000, allowed))
    assert expectations.missed == []
    expectations.expect_held(Held("with the limit", "ip 127.0.1.7", 5, 61, 2000, allowed))
    assert expectations.missed == [
        "with the limit: ip 127.0.1.7 let 61 connections in; its limit of 5/s allows at most 60 (5/s x 12 s)"
    ]


def test_accepted_of_all_and_of_one_source() -> None:
    report = {"accepted": 7, "attempts": 9, "sources": {"127.0.1.7": {"accepted": 2, "attempts": 3}}}
    assert accepted_of(report) == (7, 9)
    assert accepted_of(report, "127.0.1.7") == (2, 3)
