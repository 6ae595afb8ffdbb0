import pytest
from rich.console import Console

from sluicegate_operator.cli.storms.storm_report import AttemptOutcome, StormReport, percentile
from sluicegate_operator.cli.storms.storm_tables import storm_table


def test_nearest_rank_percentiles() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert [percentile(ordered, percent) for percent in (0, 1, 50, 99, 99.9, 100)] == [1, 1, 50, 99, 100, 100]
    assert percentile([3.0], 50) == 3.0


def test_counts_add_up_for_each_source_and_in_total() -> None:
    report = StormReport("127.0.0.1:9094", elapsed_s=2.0)
    for source in ("127.0.1.1", "127.0.1.1", "127.0.1.2"):
        report.started(source)
    report.answered("127.0.1.1", 0.004, 1.2)
    report.ended("127.0.1.1", AttemptOutcome.TIMED_OUT)
    report.failed_here("127.0.1.2", "Cannot assign requested address")

    shown = report.as_dict()

    assert shown["attempts"] == 3
    assert shown["accepted"] == 1
    assert shown["timed_out"] == 1
    assert shown["local_error"] == 1
    assert shown["attempts_per_second"] == 1.5
    assert shown["latency_ms"] == {"p50": 4.0, "p90": 4.0, "p99": 4.0, "p99.9": 4.0}
    assert shown["accepted_by_second"] == {"1": 1}
    assert shown["local_errors"] == {"Cannot assign requested address": 1}
    sources = shown["sources"]
    assert isinstance(sources, dict)
    assert sources["127.0.1.1"] == {
        "attempts": 2,
        "accepted": 1,
        "closed": 0,
        "refused": 0,
        "timed_out": 1,
        "local_error": 0,
    }


@pytest.mark.parametrize("elapsed_s", [0.0, 1.0])
def test_a_storm_without_attempts_has_a_report(elapsed_s: float) -> None:
    shown = StormReport("127.0.0.1:9094", elapsed_s=elapsed_s).as_dict()
    assert shown["attempts"] == 0
    assert shown["attempts_per_second"] == 0.0
    assert shown["latency_ms"] == {}


def test_an_ipv6_target_is_in_the_title_and_is_no_markup() -> None:
    console = Console(width=120)
    with console.capture() as shown:
        console.print(storm_table(StormReport("[fd00::1]:9094", elapsed_s=2.0)))
    assert "Storm on [fd00::1]:9094, 2.0 s" in shown.get()
