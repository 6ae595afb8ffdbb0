"""The tiles that the page opens with."""

import re
from dataclasses import replace

import pytest

from audit_pipeline.report.figures.completeness import BrokerLog
from audit_pipeline.report.figures.overall import Overall, Step
from audit_pipeline.report.figures.report import Report, Subjects
from audit_pipeline.report.sections.tiles import tiles

NINE = 1_795_424_400_000_000
HOUR_US = 3_600_000_000


def told(found: Subjects) -> dict[str, str]:
    """Return the number of each tile by the tile's name."""
    return dict(re.findall(r"<a [^>]*>([^<]*)</a><strong[^>]*>([^<]*)</strong>", tiles(found) or ""))


def with_brokers(found: Subjects, *brokers: tuple[int | None, int | None]) -> Subjects:
    """Return figures with brokers of these last events and ends of completeness."""
    logs = [
        BrokerLog("c", number, last_us, None, until_us, (), 0, 1) for number, (last_us, until_us) in enumerate(brokers)
    ]
    return replace(found, completeness=replace(found.completeness, brokers=tuple(logs)))


@pytest.fixture
def found(report: Report) -> Subjects:
    assert report.subjects is not None
    return report.subjects


def test_traffic_is_the_sum_of_all_clusters(found: Subjects) -> None:
    points = [point for cluster in found.traffic.clusters for point in cluster.points]
    assert (found.traffic.clusters_left_out, len(found.traffic.clusters)) == (0, 2)
    whole = found.overall
    assert whole.requests == sum(point.requests for point in points) > 0
    assert whole.errors == sum(point.errors for point in points) > 0
    assert whole.in_bytes == sum(point.in_bytes for point in points) > 0
    assert whole.out_bytes == sum(point.out_bytes for point in points) > 0


def test_a_tile_shows_a_number_and_its_line(found: Subjects) -> None:
    steps = (Step(0, 100, 0, 2048, 0), Step(1, 1_200_000, 3, 1024, 512))
    found = replace(found, overall=Overall(steps))
    numbers = told(found)
    assert numbers["Requests"] == "1.2 million"
    assert (numbers["In"], numbers["Out"], numbers["Errors"]) == ("3 KiB", "512 B", "3")
    made = tiles(found) or ""
    assert "less than 0.001 % of requests" in made
    assert made.count('<svg class="spark"') == 4 + sum(name.endswith("p99") for name in numbers)


def test_no_request_has_neither_a_share_of_errors_nor_a_line(found: Subjects) -> None:
    found = replace(found, overall=Overall(()), latency=replace(found.latency, apis=()))
    assert told(found)["Requests"] == "0"
    made = tiles(found) or ""
    assert "of requests" not in made
    assert "<svg" not in made


def test_completeness_ends_with_the_earliest_broker(found: Subjects) -> None:
    numbers = told(with_brokers(found, (NINE, NINE), (NINE, NINE - HOUR_US)))
    assert (numbers["Brokers heard"], numbers["Complete until"]) == ("2 of 2", "2026-11-23 08:00")


def test_a_broker_without_an_event_leaves_completeness_unknown(found: Subjects) -> None:
    numbers = told(with_brokers(found, (NINE, NINE), (None, None)))
    assert (numbers["Brokers heard"], numbers["Complete until"]) == ("1 of 2", "not known")


def test_a_log_without_events_has_no_tiles() -> None:
    assert tiles(None) is None
