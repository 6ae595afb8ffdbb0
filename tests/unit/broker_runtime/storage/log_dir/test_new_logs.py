"""Files of new logs: complete or absent, whatever creates them."""

from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.checkpoint import read_topic_id
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.fakes.disks.memory_filesystem import MemoryFile
from tests.support.logs.logs import LOG_DIR, LogHouse

NEW_ID, NEWER_ID = UUID(int=21), UUID(int=22)


@pytest.mark.parametrize("opened", range(4))
def test_a_log_that_cannot_be_created_leaves_no_files(opened: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously each attempt to create a partition without descriptors set a folder aside for the user.

    The files are its metadata, the segment and two indexes; some of them are opened before descriptors run out.
    """
    house = LogHouse()
    open_file, left = house.fs.open, opened

    def open_some(path: Path, *, create: bool = False) -> MemoryFile:
        nonlocal left
        house.fs.no_descriptors = left == 0
        left -= 1
        return open_file(path, create=create)

    monkeypatch.setattr(house.fs, "open", open_some)
    for _ in range(3):
        left = opened
        with pytest.raises(KafkaError):
            house.logs.create("new", 0, NEW_ID, house.config)
    monkeypatch.undo()
    house.fs.mend()
    assert not house.fs.exists(LOG_DIR / "new-0")
    assert len(house.logs.strays) == 0
    assert house.logs.create("new", 0, NEW_ID, house.config).log_end_offset == 0


def test_a_log_that_a_thread_cannot_create_is_retried_on_the_loop_which_reports_the_error() -> None:
    house = LogHouse()
    done: list[None] = []
    house.fs.no_descriptors = True
    house.logs.new_logs.make_soon([(("new", 0), NEW_ID)], lambda: done.append(None))
    assert done == [None]
    with pytest.raises(KafkaError, match="too many open files"):
        house.logs.create("new", 0, NEW_ID, house.config)


def test_files_that_were_made_for_an_earlier_topic_of_that_name_count_for_none() -> None:
    house = LogHouse()
    house.logs.new_logs.make_soon([(("new", 0), NEW_ID)], lambda: None)
    assert house.fs.exists(LOG_DIR / "new-0")
    log = house.logs.create("new", 0, NEWER_ID, house.config)
    assert (log.topic_id, read_topic_id(house.fs, LOG_DIR / "new-0")) == (NEWER_ID, NEWER_ID)
    assert len(house.logs.strays) == 0


def test_files_that_were_made_and_not_taken_are_a_log_without_records_after_a_crash() -> None:
    house = LogHouse()
    house.logs.new_logs.make_soon([(("new", 0), NEW_ID)], lambda: None)
    house.kill()
    log = house.logs.get("new", 0)
    assert log is not None
    assert (log.topic_id, log.log_end_offset, house.logs.damaged) == (NEW_ID, 0, {})


def test_files_are_made_once_however_often_they_are_asked_for() -> None:
    disk = ManualDisk()
    house = LogHouse(disk=disk)
    done: list[None] = []
    for _ in range(2):
        house.logs.new_logs.make_soon([(("new", 0), NEW_ID), (("orders", 0), NEW_ID)], lambda: done.append(None))
        disk.finish_all()
    assert (len(done), disk.begun) == (2, 1)


def test_one_thread_makes_files_at_a_time_and_nobody_is_forgotten() -> None:
    disk = ManualDisk()
    house = LogHouse(disk=disk)
    done: list[int] = []
    for index in range(2):
        house.logs.new_logs.make_soon([(("new", index), NEW_ID)], partial(done.append, index))
    assert disk.busy == 1
    disk.finish_one()
    assert (done, disk.busy) == ([0], 1)
    disk.finish_one()
    assert done == [0, 1]
