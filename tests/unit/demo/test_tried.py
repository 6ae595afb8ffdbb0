"""What the demo reads from the JSON of what-if, and expects of it."""

from typing import Any

from demo.checks import Expectations
from demo.tried import expect_adapted, expect_tried, tried

OF_STORM: dict[str, Any] = {
    "limits": [
        {"quota": "default/rate", "connections": 100, "delayed": 90, "delay_p99_ms": 4_500.0, "rejected": 0},
        {"quota": None, "connections": 7, "delayed": 0, "delay_p99_ms": None, "rejected": 0},
    ],
    "clients": [
        {"client_ip": "127.0.1.1", "limit": "key"},
        {"client_ip": "127.0.1.2", "limit": "key"},
        {"client_ip": "127.0.0.1", "limit": None},
    ],
}
IN_FORCE: dict[str, Any] = {"agreement": {"compared": 1_000, "different": 0, "moves": 5}}


def missed(in_force: dict[str, Any] = IN_FORCE, of_storm: dict[str, Any] = OF_STORM, admitted: int = 900) -> list[str]:
    expectations = Expectations()
    expect_tried(tried(of_storm, in_force), admitted, expectations)
    return expectations.missed


def test_the_sentences_have_the_numbers_of_what_if() -> None:
    limit, clients, agreement = tried(OF_STORM, IN_FORCE).sentences
    assert limit == (
        "what if: default/rate would have delayed 90 of the 100 connections that it meets in the storm without a "
        "limit, 99 % of them by at most 4.5 s, and rejected 0"
    )
    assert clients == "they would have delayed or rejected connections of 2 addresses"
    assert "1,000 of 1,000 decisions" in agreement
    assert missed() == []


def test_each_missed_expectation_is_a_sentence() -> None:
    assert "1 of 1000 decisions" in missed({"agreement": {"compared": 1_000, "different": 1, "moves": 5}})[0]
    assert "only 1000 of them" in missed(admitted=1_001)[0]
    assert "no connection of a storm" in missed(of_storm={"limits": [], "clients": []})[0]


def test_an_adaptive_rate_moves_if_the_client_waits_longer_than_its_objective_explains() -> None:
    def adapted(moves: int, p99_ms: float) -> list[str]:
        expectations = Expectations()
        found = tried(OF_STORM, {"agreement": {"compared": 1_000, "different": 0, "moves": moves}})
        expect_adapted(found, p99_ms, 5, expectations)
        return expectations.missed

    assert adapted(0, 20.0) == adapted(1, 20.1) == []
    assert "no move of the adaptive rate, but 1 % of the client's messages took 20.1 ms" in adapted(0, 20.1)[0]
