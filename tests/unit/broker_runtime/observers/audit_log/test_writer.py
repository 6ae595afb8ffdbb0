"""Numbers without holes, whatever the disk does and whenever the process is killed."""

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.spool.spool import SpoolContent, read_header, read_spool
from audit_pipeline.spool.tables import gaps_of
from broker_runtime.apis.request.call import Ending
from broker_runtime.observers.audit_log.layout import REQUEST_ROW
from broker_runtime.storage.disk.filesystem import read_file, replace_file
from tests.support.audit.audit import AuditBench, ended_call
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.requests.calls import NotedConnection

FOLDER = Path("/audit")


def contents(fs: MemoryFileSystem) -> list[SpoolContent]:
    names = [name for name in fs.listdir(FOLDER) if name.endswith(".spool")]
    return [read_spool(read_file(fs, FOLDER / name)) for name in names]


def told(fs: MemoryFileSystem, *, ended: bool) -> tuple[list[int], list[tuple[int, int, str]]]:
    """Numbers in blocks, with repetitions, and the gaps: those in blocks and those found by the reader."""
    numbers: list[int] = []
    gaps: list[tuple[int, int, str]] = []
    found = contents(fs)
    for place, content in enumerate(found):
        is_last = place == len(found) - 1
        until = None if is_last else found[place + 1].header.first_seq - 1
        for block in content.blocks:
            numbers += range(block.first_seq, block.last_seq + 1)
            gaps += [(values[1], values[0], values[4]) for table, *values in block.others if table == "gap"]
        for gap in gaps_of(content, until, ended=ended and is_last):
            numbers += range(gap.first_seq, gap.last_seq + 1)
            gaps.append((gap.first_seq, gap.last_seq, gap.reason))
    return numbers, gaps


def test_an_event_is_in_the_spool_within_a_tenth_of_a_second() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    bench.request()
    bench.timers.advance(0.09)
    assert contents(fs)[0].blocks == []
    bench.timers.advance(0.01)
    (block,) = contents(fs)[0].blocks
    assert (block.first_seq, block.last_seq) == (1, 1)


def test_a_boot_appears_with_its_lock_held() -> None:
    """A reader that finds an unlocked boot takes it for one that has ended."""
    locked: list[str] = []

    class Watched(MemoryFileSystem):
        def lock(self, path: Path) -> Any:
            locked.append(path.name)
            return super().lock(path)

        def rename(self, source: Path, target: Path) -> None:
            assert locked == [source.name]
            assert read_header(read_file(self, source)) is not None
            super().rename(source, target)

    fs = Watched()
    bench = AuditBench(fs, FOLDER)
    assert fs.listdir(FOLDER) == ["0001-00000001.spool", "0001.lock"]
    assert "0001.lock" not in locked
    bench.log.close()


@pytest.mark.parametrize("event", [AuditBench.request, AuditBench.connect])
def test_a_block_that_is_full_is_written_at_once(event: Callable[[AuditBench], object]) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    for _ in range(1024):
        event(bench)
    (block,) = contents(fs)[0].blocks
    assert block.last_seq == 1024


def test_a_kill_without_pending_events_loses_nothing() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    for _ in range(50):
        bench.request()
    bench.settle()
    numbers, gaps = told(fs, ended=True)
    assert numbers == list(range(1, 51))
    assert gaps == []


def test_events_possibly_lost_by_a_kill_are_reported_with_few_others() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    for _ in range(10):
        bench.request()
    bench.settle()
    for _ in range(100):
        bench.request()
    numbers, gaps = told(fs, ended=True)
    assert len(numbers) >= 110
    ((first, last, reason),) = gaps
    assert (first, reason) == (11, "killed")
    assert last <= 110 + 4 * 100


def test_requests_that_are_still_being_added_up_have_their_numbers_kept_for_them() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, level="rollup", rollup_ms="60000")
    for number in range(500):
        bench.request(19 if number % 100 == 99 else 3)
        bench.timers.advance(0.01)
    bench.settle()
    assert bench.log.figures.events == 500
    numbers, gaps = told(fs, ended=True)
    assert len(numbers) >= 500
    assert [reason for *_, reason in gaps] == ["killed"]


@pytest.mark.parametrize("level", ["full", "rollup"])
def test_after_a_kill_at_any_time_no_number_exceeds_the_reserved_one(level: str) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, level=level, rollup_ms="60000", segment_ms="1000")
    for number in range(1, 151):
        bench.request(19 if number % 30 == 1 else 3)
        assert len(told(fs, ended=True)[0]) >= number
    bench.timers.advance(1.5)
    assert len(told(fs, ended=True)[0]) >= 150


def test_an_interval_of_rollups_ends_by_itself_and_the_next_begins_with_its_first_request() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, level="rollup", rollup_ms="1000")
    for pause_s in (0.5, 5.0, 0.5):
        bench.request()
        bench.timers.advance(pause_s)
    bench.timers.advance(1)
    rows = [event for content in contents(fs) for block in content.blocks for event in block.others]
    begin_us = 1_700_000_000_000_000
    # The last number and the first, the beginning and the length of the interval.
    assert [row[1:5] for row in rows] == [[2, 1, begin_us, 1_000_000], [3, 3, begin_us + 5_500_000, 1_000_000]]


def test_a_log_that_closes_writes_no_block_without_events() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    bench.request()
    bench.settle()
    bench.log.close()
    assert [block.last_seq for block in contents(fs)[0].blocks] == [1]


def test_a_temporarily_full_disk_loses_only_events_beyond_the_queue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, queue_bytes="20000")
    bench.request()
    bench.settle()
    fs.capacity_bytes = 0
    with caplog.at_level(logging.ERROR):
        for _ in range(1000):
            bench.request()
            bench.timers.advance(0.01)
    dropped = bench.log.figures.dropped
    assert 0 < dropped < 1000
    assert len(caplog.records) == 1, "it is told once a minute"
    fs.mend()
    bench.timers.advance(2)
    numbers, gaps = told(fs, ended=False)
    assert numbers == list(range(1, 1002))
    ((first, last, reason),) = gaps
    assert (last - first + 1, reason) == (dropped, "queue full")
    (gap,) = [event for content in contents(fs) for block in content.blocks for event in block.others]
    table, seq, first_seq, _, events, *_ = gap
    assert (table, seq, first_seq, events) == ("gap", last, first, dropped)


def test_a_full_disk_at_the_end_of_a_file_leaves_no_number_twice() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, queue_bytes="1000", segment_bytes="3000")
    for _ in range(30):
        bench.request()
    bench.settle()
    fs.capacity_bytes = 0
    for _ in range(100):
        bench.request()
        bench.timers.advance(0.1)
    fs.mend()
    bench.timers.advance(2)
    numbers, gaps = told(fs, ended=False)
    assert numbers == list(range(1, 131))
    assert [reason for *_, reason in gaps] == ["queue full"]
    assert len(contents(fs)) == 2


def test_dropped_events_are_reported_when_the_log_closes_after_the_disk_recovered() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, queue_bytes="1000")
    fs.capacity_bytes = 0
    for _ in range(100):
        bench.request()
        bench.timers.advance(0.1)
    fs.mend()
    bench.log.close()
    numbers, gaps = told(fs, ended=True)
    assert numbers == list(range(1, 101))
    assert [reason for *_, reason in gaps] == ["queue full"]
    assert all(timer.is_cancelled for timer in bench.timers._timers)


def test_an_event_that_cannot_be_recorded_leaves_no_hole() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    bench.request()
    with pytest.raises(struct.error):
        bench.request(acks=200)
    bench.request()
    bench.settle()
    (block,) = contents(fs)[0].blocks
    assert (block.last_seq, len(block.request_rows) // REQUEST_ROW.size) == (2, 2)


def test_names_that_clients_make_up_are_kept_up_to_a_length() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    for number in range(100):
        bench.request(0, [(f"{number}" * 10_000, 0, 0, -1, -1, -1, -1, -1, 3)], client_id="c" * 30_000)
    bench.settle()
    (block,) = contents(fs)[0].blocks
    assert max(map(len, block.topics)) == 249
    assert {len(client[5]) for client in block.clients} == {255}
    assert bench.log.figures.events == 100


@pytest.mark.parametrize(
    ("config", "refused", "not_refused"),
    [
        ({}, (3, "PLAINTEXT"), None),
        ({"exclude_listeners": "INTERNAL"}, (3, "PLAINTEXT"), (19, "INTERNAL")),
        ({"level": "connections"}, (19, "PLAINTEXT"), (3, "PLAINTEXT")),
    ],
)
def test_requests_to_be_recorded_are_rejected_while_the_queue_is_full_if_configured(
    config: dict[str, str], refused: tuple[int, str], not_refused: tuple[int, str] | None
) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, queue_bytes="1000", queue_full="reject", **config)

    def refuses(of: tuple[int, str]) -> bool:
        connection = NotedConnection()
        connection.listener = of[1]
        return bench.log.refuses(ended_call(of[0], connection, 0, (), Ending.ANSWERED, None))

    assert not refuses(refused)
    fs.capacity_bytes = 0
    for _ in range(100):
        bench.request(19)
        bench.timers.advance(0.1)
    assert refuses(refused)
    assert not_refused is None or not refuses(not_refused)
    fs.mend()
    bench.timers.advance(2)
    assert not refuses(refused)


def test_a_folder_that_is_read_only_for_a_while_is_as_a_full_disk() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, queue_bytes="1000", segment_ms="1000")
    bench.request()
    bench.settle()
    fs.read_only = True
    for _ in range(100):
        bench.request()
        bench.timers.advance(0.1)
    fs.mend()
    bench.timers.advance(2)
    bench.request()
    bench.log.close()
    numbers, gaps = told(fs, ended=True)
    assert numbers == list(range(1, 103))
    assert [reason for *_, reason in gaps] == ["queue full"]


def test_a_kill_on_a_full_disk_reports_the_dropped_events_too() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, queue_bytes="1000")
    fs.capacity_bytes = 0
    for _ in range(500):
        bench.request()
        bench.timers.advance(0.01)
    numbers, gaps = told(fs, ended=True)
    assert len(numbers) >= 500
    assert [reason for *_, reason in gaps] == ["killed"]


def test_a_spool_is_complete_after_its_time_and_after_its_size() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, segment_ms="5000", segment_bytes="5000")
    bench.request()
    bench.timers.advance(5.2)
    assert [content.end is not None for content in contents(fs)] == [True, False]
    for _ in range(200):
        bench.request()
    bench.settle()
    _, second, third = contents(fs)
    assert second.end is not None
    assert third.header.first_seq == second.end.last_seq + 1 == 202


def test_an_idle_broker_makes_no_files() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, segment_ms="1000")
    bench.timers.advance(3600)
    assert len(contents(fs)) == 1


def test_spools_that_nobody_lands_have_a_limit() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, spool_bytes="20000", queue_bytes="1000", segment_bytes="5000")
    for _ in range(600):
        bench.request()
        bench.timers.advance(0.1)
    assert fs.used_bytes() <= 20_000 + 2_000
    assert bench.log.figures.dropped > 0
    fs.unlink(FOLDER / "0001-00000001.spool")
    bench.timers.advance(2)
    numbers, gaps = told(fs, ended=False)
    assert numbers[-1] == 600
    assert any(reason == "queue full" for *_, reason in gaps)


def test_spools_without_a_lander_are_not_read_repeatedly() -> None:
    opened: list[str] = []

    class Watched(MemoryFileSystem):
        def open(self, path: Path, *, create: bool = False) -> Any:
            if path.name.startswith("0000-"):
                opened.append(path.name)
            return super().open(path, create=create)

    fs = Watched()
    fs.mkdir(FOLDER)
    for number in range(20):
        replace_file(fs, FOLDER / f"0000-{number:08d}.spool", b"x" * 500)
    opened.clear()
    bench = AuditBench(fs, FOLDER, spool_bytes="20000", queue_bytes="1000", segment_bytes="2000")
    assert len(opened) == 20
    for _ in range(300):
        bench.request()
        bench.timers.advance(0.1)
    assert bench.log.figures.dropped > 0
    assert bench.log.figures.waiting_spools > 20
    assert len(opened) == 20
    for number in range(10):
        fs.unlink(FOLDER / f"0000-{number:08d}.spool")
    bench.timers.advance(2)
    assert len(opened) == 20 + 10
    assert told_of_own(fs)[-1] == 300


def told_of_own(fs: MemoryFileSystem) -> list[int]:
    blocks = [
        block
        for name in fs.listdir(FOLDER)
        if name.startswith("0001-")
        for block in read_spool(read_file(fs, FOLDER / name)).blocks
    ]
    return [seq for block in blocks for seq in range(block.first_seq, block.last_seq + 1)]


def test_a_block_that_is_larger_than_the_limit_is_written_when_all_others_are_landed() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, spool_bytes="3000", segment_bytes="1500")
    for _ in range(3):
        for _ in range(100):
            bench.request()
        bench.settle()
    assert [block.last_seq for content in contents(fs) for block in content.blocks] == [100]
    fs.unlink(FOLDER / "0001-00000001.spool")
    bench.timers.advance(2)
    assert [block.last_seq for content in contents(fs) for block in content.blocks] == [200]


def test_a_clock_that_jumps_moves_the_times_of_later_blocks_and_no_number() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    bench.request()
    bench.settle()
    bench.clock.jump(-3600)
    bench.request()
    bench.settle()
    (content,) = contents(fs)
    before, after = content.blocks
    assert (before.last_seq, after.first_seq) == (1, 2)
    assert before.wall_us - after.wall_us > 3_500_000_000


def test_clients_whose_connections_have_ended_are_forgotten_in_time() -> None:
    bench = AuditBench(MemoryFileSystem(), FOLDER)
    for number in range(1, 1_502):
        connection = NotedConnection()
        connection.id = number
        bench.request(connection=connection)
        if number > 1:
            connection.end()
    known = bench.log._clients.by_id
    assert len(known) == 1_001
    assert {1, 502, 1_501} <= known.keys()


def test_a_new_file_that_cannot_be_begun_leaves_the_old_one_and_is_tried_again() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER, segment_ms="1000")
    bench.request()
    bench.settle()
    fs.capacity_bytes = 0
    bench.timers.advance(3)
    bench.request()
    bench.timers.advance(3)
    assert [content.end for content in contents(fs)] == [None]
    fs.mend()
    bench.timers.advance(3)
    first, second = contents(fs)
    assert (first.end is not None, second.header.first_seq) == (True, 3)
    assert told(fs, ended=False) == ([1, 2], [])


STEPS = st.one_of(
    st.tuples(st.just("request"), st.integers(1, 60)),
    st.tuples(st.just("connect"), st.integers(1, 5)),
    st.tuples(st.just("wait"), st.integers(1, 3000)),
    st.tuples(st.just("full"), st.just(0)),
    st.tuples(st.just("free"), st.just(0)),
)


@given(
    steps=st.lists(STEPS, max_size=30),
    is_killed=st.booleans(),
    level=st.sampled_from(["full", "rollup", "connections"]),
)
def test_every_event_is_written_or_told_as_missing(steps: list[tuple[str, int]], is_killed: bool, level: str) -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(
        fs, FOLDER, level=level, queue_bytes="3000", segment_ms="2000", segment_bytes="9000", rollup_ms="1000"
    )
    for step, count in steps:
        match step:
            case "request":
                for _ in range(count):
                    bench.request(19 if count % 2 else 3, ending=Ending.ANSWERED)
            case "connect":
                for number in range(count):
                    bench.connect(connection_id=number + 1)
            case "wait":
                bench.timers.advance(count / 1000)
            case "full":
                fs.capacity_bytes = 0
            case "free":
                fs.mend()
    recorded = bench.log.figures.events
    if not is_killed:
        bench.log.close()
    numbers, _ = told(fs, ended=True)
    assert numbers == list(range(1, len(numbers) + 1))
    if fs.capacity_bytes is None and not is_killed:
        assert len(numbers) == recorded
    else:
        assert len(numbers) >= recorded


def test_spools_without_a_lander_are_counted_until_they_are_landed() -> None:
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    for complete in range(1, 4):
        bench.request()
        bench.timers.advance(61)
        assert bench.log.figures.waiting_spools == complete
    for name in fs.listdir(FOLDER)[:-1]:
        if name.endswith(".spool"):
            fs.unlink(FOLDER / name)
    bench.request()
    bench.timers.advance(61)
    assert bench.log.figures.waiting_spools <= 1
