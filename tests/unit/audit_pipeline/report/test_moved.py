"""Who moved how much over time: the bounded data of the page's filter, its heat map and its stacked chart."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.moved import FOLDS, ROWS_MAX, Moved
from audit_pipeline.report.figures.report import Subjects, report_of
from audit_pipeline.report.sections.filter import moved_data
from audit_pipeline.report.sections.moving import LAYERS_MAX, LEVELS, heat_map, level, stacked
from audit_pipeline.report.window import Span, Wanted
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_results import HOSTILE, minutes_of_a_demo, publish_rows

AT = datetime(2026, 11, 22, tzinfo=UTC)


def subjects(root: Path) -> Subjects:
    found = report_of(PublishedTables(FolderTarget(root)), Wanted()).subjects
    assert found is not None
    return found


@pytest.fixture
def crowd(tmp_path: Path) -> Subjects:
    """A day of 300 clients, each on two of 150 topics in every window; the first ones move most."""
    rows = minutes_of_a_demo()
    (covered,) = rows["coverage"]
    rows["coverage"] = [{**covered, "window_start": AT, "first_ts": AT, "last_ts": AT + timedelta(hours=23)}]
    usage = {"event_date": AT.date(), "cluster_id": "demo", "api": "Produce", "requests": 1}
    rows["usage"] = [
        {**usage, "window_start": AT + timedelta(minutes=10 * window), "client_id": f"client-{client}"}
        | {"topic": f"topic-{(client + side) % 150}", "in_bytes": 1000 - client, "records": None if side else 2}
        for window in range(138)
        for client in range(300)
        for side in range(2)
    ]
    publish_rows(tmp_path, rows)
    return subjects(tmp_path)


def test_very_many_clients_are_folded_and_nothing_is_lost(crowd: Subjects) -> None:
    moved = crowd.moved
    assert len(moved.rows) <= ROWS_MAX
    assert sum(row.produced for row in moved.rows) == sum(2 * 138 * (1000 - client) for client in range(300))
    assert sum(row.requests for row in moved.rows) == 138 * 300 * 2
    assert moved.clients[0] == "client-0"
    assert len(moved.clients) + moved.folded["clients"] == 300
    assert {row.client for row in moved.rows} <= set(range(len(moved.clients) + 1))
    assert max(row.step for row in moved.rows) < moved.steps


def test_the_last_fold_never_has_more_rows_than_allowed() -> None:
    clusters, clients, topics, steps = FOLDS[-1]
    assert (clusters + 1) * (clients + 1) * (topics + 1) * steps <= ROWS_MAX


def test_long_names_leave_room_for_fewer_of_them(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    rows["usage"] += [{**row, "client_id": f"{number:03}{'x' * 246}"} for row in rows["usage"] for number in range(150)]
    publish_rows(tmp_path, rows)
    moved = subjects(tmp_path).moved
    assert (len(moved.clients), moved.folded["clients"]) == (80, 71)


def test_the_data_of_the_page_is_bounded(crowd: Subjects) -> None:
    text = moved_data(crowd)
    assert text is not None
    assert len(text) < 500_000


def test_the_number_of_records_is_unknown_only_if_no_window_has_one(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    rows["usage"] += [{**row, "topic": "unknown", "records": None} for row in rows["usage"] if "topic" in row]
    publish_rows(tmp_path, rows)
    moved = subjects(tmp_path).moved
    records = {moved.topics[row.topic]: row.records for row in moved.rows}
    assert records == {"orders": 2700, "unknown": None}


def test_a_name_cannot_end_the_element_of_the_data(report: object, told: Path) -> None:
    text = moved_data(subjects(told))
    assert text is not None
    assert text.count("<") == 2
    read = json.loads(re.sub("<[^>]*>", "", text))
    assert set(read["clients"]) >= {name for name in HOSTILE if name.isprintable()}
    assert len(read["rows"]) % 9 == 0


def test_the_stack_has_the_clients_that_moved_most_and_all_others(crowd: Subjects) -> None:
    drawn = stacked(crowd.moved, crowd.windows.shown)
    names = re.findall(r"<li><svg.*?</svg><span>(.*?)</span>", drawn)
    assert names == [*(f"client-{number}" for number in range(LAYERS_MAX)), "others"]
    assert 'class="fill others"' in drawn


def test_cells_of_the_heat_map_are_stronger_for_more_bytes(crowd: Subjects) -> None:
    drawn = heat_map(crowd.moved)
    assert f'class="heat-{LEVELS}"' in drawn
    assert 'title="client-0, topic-1: produced' in drawn
    assert [level(value, 4096) for value in (4096, 1025, 1024, 300, 60, 1, 0)] == [6, 6, 5, 5, 3, 1, 0]


def test_a_step_that_is_partly_outside_of_the_time_is_drawn_within_it(crowd: Subjects) -> None:
    moved = Moved(0, 100, 2, ("c",), ("a",), ("t",), {}, crowd.moved.rows[:1])
    drawn = stacked(moved, Span(50, 150))
    assert set(re.findall(r'<path d="M([0-9.]+) ', drawn)) == {"0"}
