"""Many logs are deleted: few syncs, and their folders are removed in slices, all of it beside the event loop."""

from uuid import UUID

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log_dir.deleted import FOLDERS_PER_SLICE
from broker_runtime.storage.log_dir.manager import LogManager
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR

MANY = FOLDERS_PER_SLICE + 50
CONFIG = TopicConfig(file_delete_delay_ms=0)


class Deleting:
    def __init__(self, count: int) -> None:
        self.fs, self.disk = MemoryFileSystem(), ManualDisk()
        self.logs = LogManager(LOG_DIR, fs=self.fs, clock=ManualClock(), disk=self.disk)
        self.logs.open(lambda _topic: CONFIG)
        for number in range(count):
            self.make(number)

    def make(self, number: int, topic_id: int = 1) -> None:
        self.logs.create("orders", number, UUID(int=topic_id), CONFIG)

    def tick(self) -> None:
        at_once(self.logs.tick())
        while self.disk.busy:
            self.disk.finish_one()

    @property
    def left(self) -> int:
        return sum(name.endswith("-delete") for name in self.fs.listdir(LOG_DIR))


def test_one_sync_covers_the_deletions_that_came_while_another_was_under_way() -> None:
    many = Deleting(MANY)
    for number in range(MANY):
        many.logs.delete("orders", number)
    synced = 0
    while many.disk.busy:
        many.disk.finish_one()
        synced += 1
    assert synced == 2
    assert many.left == MANY


def test_folders_go_in_slices_and_not_before_their_renames_are_durable() -> None:
    many = Deleting(MANY)
    for number in range(MANY):
        many.logs.delete("orders", number)
    at_once(many.logs.tick())
    assert many.left == MANY, "a power loss would bring back a part of them"
    lefts = []
    while many.left:
        many.tick()
        lefts.append(many.left)
    assert sorted({*lefts, MANY}, reverse=True) == [MANY, 50, 0]


def test_a_name_is_used_again_only_when_the_rename_of_its_folder_is_durable() -> None:
    many = Deleting(3)
    many.logs.delete("orders", 0)
    many.logs.delete("orders", 1)
    many.make(1, topic_id=2)
    assert "orders-0" not in many.fs.process_killed().listdir(LOG_DIR)
    many.disk.finish_one()
    many.tick()
    many.tick()
    assert many.left == 0
    assert [log.partition for log in many.logs.logs()] == [2, 1]


def test_what_cannot_be_removed_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    many = Deleting(2)
    many.logs.delete("orders", 0)
    (folder,) = [name for name in many.fs.listdir(LOG_DIR) if name.endswith("-delete")]
    many.fs.mkdir(LOG_DIR / folder / "in-the-way")
    many.tick()
    many.tick()
    assert many.left == 1
    assert "retrying" in caplog.text
    many.fs.rmdir(LOG_DIR / folder / "in-the-way")
    many.tick()
    assert many.left == 0
