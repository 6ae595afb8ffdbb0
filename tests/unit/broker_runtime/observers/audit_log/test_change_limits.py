"""Limits of the rows of one request, and answers that are looked through over several time slices."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.spool.spool import read_spool
from broker_runtime.observers.audit_log import change_log
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.wire import versions
from tests.support.audit.audit import AuditBench
from tests.support.audit.changes import EXISTS, answered, events_in, incremental, many_topics, told


async def _closed_while_waiting(folder: Path, settings: dict[str, str], play: Callable[[AuditBench], None]) -> None:
    bench = AuditBench(OsFileSystem(), folder, **settings)
    play(bench)
    bench.log.close()
    await asyncio.sleep(0)


def test_only_the_first_groups_of_many_are_read_and_the_rest_is_counted_by_error(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path)
    names = [f"g{number}" for number in range(250)]
    results = [{"group_id": name, "error_code": 69 if number >= 240 else 0} for number, name in enumerate(names)]
    bench.change(versions.DELETE_GROUPS, 2, {"groups_names": names}, {"results": results}, is_framed=True)

    rows = told(bench, tmp_path)
    assert len(rows) == 202
    assert [(row["further"], row["error_code"]) for row in rows[200:]] == [(40, 0), (10, 69)]


@pytest.mark.parametrize("count", [50, 5000])
def test_of_many_resources_only_some_have_rows_and_the_rest_is_counted_by_error(count: int, tmp_path: Path) -> None:
    async def play() -> list[dict[str, Any]]:
        bench = AuditBench(OsFileSystem(), tmp_path, changes_rows="30")
        bench.change(versions.CREATE_TOPICS, 7, *many_topics(count))
        for _ in range(2000):
            await asyncio.sleep(0)
        rows = told(bench, tmp_path)
        bench.log.close()
        return rows

    rows = asyncio.run(play())
    assert [row["resource_name"] for row in rows] == [f"topic-{number}" for number in range(30)] + [None, None]
    assert [row["error_code"] for row in rows[:30]] == [EXISTS if number % 10 == 9 else 0 for number in range(30)]
    left = count - 30
    assert [(row["error_code"], row["further"]) for row in rows[30:]] == [(0, left * 9 // 10), (EXISTS, left // 10)]


def test_texts_are_limited_together_and_each(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path, changes_chars="3000")
    request = incremental(2, "orders", *(("retention.ms", 0, "9" * 4000) for _ in range(5)))
    bench.change(versions.INCREMENTAL_ALTER_CONFIGS, 1, request, answered((2, "orders", 0)))

    rows = told(bench, tmp_path)
    assert [row["further"] for row in rows] == [None, None, None, 2]
    assert rows[0]["new_value"] == "9" * 1000 + "... (4000 characters)"
    assert rows[3]["resource_name"] == "orders"
    assert {row["error_code"] for row in rows} == {0}


def test_changes_whose_answers_wait_are_told_when_the_log_closes(tmp_path: Path) -> None:
    def play(bench: AuditBench) -> None:
        bench.change(versions.CREATE_TOPICS, 7, *many_topics(4000))

    asyncio.run(_closed_while_waiting(tmp_path, {}, play))
    (path,) = tmp_path.glob("*.spool")
    content = read_spool(path.read_bytes())
    assert [table for table, _ in events_in(path)] == ["request", *["change"] * 1002]
    assert content.end is not None
    assert content.end.last_seq == 1003
    codes = Counter(event["error_code"] for table, event in events_in(path) if table == "change")
    assert codes == {0: 901, EXISTS: 101}


def test_outcomes_that_closing_would_take_too_long_to_find_stay_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "_STEPS_AT_CLOSE", 1)

    def play(bench: AuditBench) -> None:
        bench.change(versions.CREATE_TOPICS, 7, *many_topics(5000))

    asyncio.run(_closed_while_waiting(tmp_path, {}, play))
    (path,) = tmp_path.glob("*.spool")
    assert {event["error_code"] for table, event in events_in(path) if table == "change"} == {None}


def test_answers_beyond_the_limit_of_those_that_wait_are_not_looked_through(tmp_path: Path) -> None:
    def play(bench: AuditBench) -> None:
        bench.change(versions.CREATE_TOPICS, 7, *many_topics(5000))
        bench.change(versions.UNREGISTER_BROKER, 0, {"broker_id": 9}, {"error_code": 0, "error_message": None})

    asyncio.run(_closed_while_waiting(tmp_path, {"changes_waiting_bytes": "1000"}, play))
    (path,) = tmp_path.glob("*.spool")
    rows = [event for table, event in events_in(path) if table == "change"]
    assert (rows[0]["api"], rows[0]["error_code"]) == ("UnregisterBroker", None)


def test_a_kill_while_answers_wait_does_not_hide_their_events(tmp_path: Path) -> None:
    async def play() -> None:
        bench = AuditBench(OsFileSystem(), tmp_path)
        bench.change(versions.CREATE_TOPICS, 7, *many_topics(5000))
        bench.kill()

    asyncio.run(play())
    (path,) = tmp_path.glob("*.spool")
    reserved = read_spool(path.read_bytes()).reserved
    assert reserved is not None
    assert reserved >= 1002
