"""Rounds of the operator's benchmark, and their table."""

import json
import math

from benchmarks.operator.changes import percentile
from benchmarks.operator.process import USER, counted
from benchmarks.operator.report import summarized, table


def test_an_infinite_duration_is_shown_as_never_and_misses_its_goal() -> None:
    rounds = [{"quiet: enforced p99, s": 0.2, "other": 1.0}, {"quiet: enforced p99, s": math.inf}]
    rows = summarized(rounds)
    assert rows["quiet: enforced p99, s"]["rounds"] == [0.2, None]
    assert rows["quiet: enforced p99, s"]["reached"] is False
    assert rows["other"]["median"] == 1.0
    size = {"clusters": 2, "brokers": 3, "quotas": 20, "topics": 5}
    figures = {
        "size": size,
        "machine": "two cores",
        "rounds": 2,
        "rows": rows,
        "requests": {"2 clusters": {"list pods": 3.0}},
    }
    said = table(json.loads(json.dumps(figures, allow_nan=False)))
    assert "| quiet: enforced p99, s | 0.2 (0.2 to 0.2), and 1 never | <= 1 | **no** |" in said
    assert "- list pods: 3" in said


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert [percentile(range(1, 101), part) for part in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([3.0], 0.5) == 3.0


def test_only_the_operators_own_requests_are_counted() -> None:
    def line(user: str, verb: str, target: dict[str, str] | None) -> bytes:
        event = {"user": {"username": user}, "verb": verb, "requestURI": "/apis?x=1"}
        return json.dumps(event if target is None else {**event, "objectRef": target}).encode()

    status = {"resource": "topics", "subresource": "status"}
    lines = [
        line(USER, "patch", status),
        line(USER, "patch", status),
        line("admin", "list", status),
        line(USER, "get", None),
    ]
    assert counted(lines) == {"patch topics/status": 2, "get /apis": 1}
