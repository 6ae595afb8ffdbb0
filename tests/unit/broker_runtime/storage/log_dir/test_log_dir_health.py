"""A full disk: writers get an error, reads continue, and everything continues when there is space again."""

import errno
import logging

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import HIGH_WATERMARKS
from broker_runtime.storage.disk.filesystem import read_file
from broker_runtime.storage.disk.ledger import FILE_NAME
from broker_runtime.storage.log_dir.log_dir_health import RESERVE, LogDirHealth
from broker_runtime.storage.log_dir.manager import LogManager
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse, values_of

RESERVE_BYTES = 8192
OTHER_ID = TOPIC_ID.__class__(int=8)


class FullHouse(LogHouse):
    """A house with a reserve, and a second partition `other-0`; the metadata log is the manager's journal."""

    def manager(self) -> LogManager:
        return LogManager(LOG_DIR, fs=self.fs, clock=self.clock, disk=self.disk, reserve_bytes=RESERVE_BYTES)

    def fill(self) -> None:
        """Append until the disk has no space left; the records that were taken before are still counted."""
        self.fs.capacity_bytes = self.fs.used_bytes() + 3000
        while self.fs.used_bytes() + 300 < self.fs.capacity_bytes:
            self.append(b"x" * 200)
        with pytest.raises(KafkaError) as raised:
            self.append(b"x" * 300)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(1)
            at_once(self.logs.tick())

    @property
    def has_reserve(self) -> bool:
        return self.fs.exists(LOG_DIR / RESERVE)


def test_a_start_keeps_the_reserve() -> None:
    house = FullHouse()
    assert len(read_file(house.fs, LOG_DIR / RESERVE)) == RESERVE_BYTES
    house.restart()
    house.kill()
    assert len(read_file(house.fs, LOG_DIR / RESERVE)) == RESERVE_BYTES
    assert house.logs.dir_health.failure is None


def test_a_full_disk_is_logged_once_a_minute_and_accepts_records_when_it_has_space(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    house = FullHouse()
    house.fill()
    end = house.log.log_end_offset
    health = house.logs.dir_health
    assert health.is_full
    assert not house.has_reserve
    assert health.failure is not None
    assert "log.dirs=/data: append on orders-0 failed: ENOSPC: " in health.failure
    for _ in range(50):
        with pytest.raises(KafkaError, match="the broker accepts records again when space is free"):
            house.append(b"more")
        house.tick()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert health.failure in caplog.text
    assert "tries" not in caplog.text
    assert len(values_of(house.log)) == end, "what is stored is served on"
    house.tick(20)
    house.fs.capacity_bytes = None
    with pytest.raises(KafkaError):
        house.append(b"not tried yet")
    house.tick()
    assert house.append(b"again") == end
    assert house.has_reserve
    assert health.failure is None
    assert "log.dirs=/data can be written again" in caplog.text
    house.kill()
    assert values_of(house.log)[end:] == [b"again"], "nothing that was half-written"


def test_a_full_disk_takes_what_frees_it(caplog: pytest.LogCaptureFixture) -> None:
    """For example a deletion of a topic: its note must be written before its records are removed."""
    house = FullHouse(TopicConfig(file_delete_delay_ms=0))
    other = house.logs.create("other", 0, OTHER_ID, house.config)
    other.sole_replica = True
    house.tick(61)
    house.fill()
    house.logs.delete("orders", 0)
    used = house.fs.used_bytes()
    house.tick(3)
    assert house.fs.used_bytes() < used - 2000
    assert "orders" not in read_file(house.fs, LOG_DIR / FILE_NAME).decode()
    house.fs.capacity_bytes = house.fs.used_bytes() + 3 * RESERVE_BYTES
    house.tick(2)
    assert house.logs.dir_health.failure is None
    assert house.has_reserve


def test_a_partition_unaware_of_the_full_disk_checks_before_it_uses_the_reserve() -> None:
    house = FullHouse()
    other = house.logs.create("other", 0, OTHER_ID, house.config)
    house.fill()
    assert not other.files.health.usable
    with pytest.raises(KafkaError, match="ENOSPC"):
        house.logs.create("third", 0, OTHER_ID, house.config)
    assert house.logs.get("third", 0) is None


def test_the_metadata_log_may_take_the_reserve() -> None:
    """Otherwise no topic could be deleted."""
    house = FullHouse()
    house.fs = house.fs.process_killed()
    house.logs = house.manager()
    house.logs.open(lambda _topic: house.config, journal="orders")
    found = house.logs.get("orders", 0)
    assert found is not None
    house.log = found
    house.append(b"first")
    other = house.logs.create("other", 0, OTHER_ID, house.config)
    house.fs.capacity_bytes = house.fs.used_bytes()
    house.logs.dir_health.write_failed("a test", OSError(28, "no space left on device"))
    house.append(b"one topic less")
    with pytest.raises(KafkaError, match="a test"):
        other.files.make_usable()


def test_a_clean_stop_needs_no_more_than_the_reserve() -> None:
    house = FullHouse()
    house.fill()
    end = house.log.log_end_offset
    assert house.restart().clean
    assert house.log.log_end_offset == end
    assert house.logs.dir_health.is_full, "the start has found no room for the reserve"
    with pytest.raises(KafkaError, match=RESERVE):
        house.append(b"more")


def test_an_index_that_finds_no_space_is_no_reason_to_take_no_records_any_more() -> None:
    house = LogHouse(TopicConfig(index_interval_bytes=0, flush_ms=1000))
    for _ in range(10):
        house.append(b"x" * 100)
    house.fs.capacity_bytes = house.fs.used_bytes()
    house.clock.advance(2)
    at_once(house.logs.tick())
    assert house.log.failure is None
    assert house.log.recovery_point == 10
    house.fs.capacity_bytes = None
    assert house.append(b"on") == 10
    assert house.restart().clean
    assert (house.log.log_end_offset, house.logs.damaged) == (11, {})


def test_a_disk_that_fails_otherwise_is_tried_until_it_is_quiet() -> None:
    disk = ManualDisk()
    disk.slow = False
    house = FullHouse(disk=disk)
    house.fs.read_only = True
    with pytest.raises(KafkaError, match="input/output error"):
        house.append(b"v")
    health = house.logs.dir_health
    assert not health.is_full
    assert health.failure is not None
    assert "EIO" in health.failure
    house.fs.mend()
    assert house.append(b"v") == 0, "others than those of a full disk are tried at once"
    house.tick(9)
    assert health.failure is not None
    house.tick(2)
    assert health.failure is None


def test_checkpoints_that_cannot_be_written_take_no_more_memory_with_each_try() -> None:
    house = FullHouse()
    house.append(b"v")
    house.fs.failing_fsync = True
    file = house.logs._checkpoints._recovery_points
    for _ in range(50):
        house.append(b"v")
        house.log.files.syncs.recovery_point += 1
        house.tick(61)
    assert len(file._coming) <= 1
    assert set(file.may_say(("orders", 0))) >= set(range(1, 50))
    house.fs.failing_fsync = False
    house.tick(61)
    assert file.may_say(("orders", 0)) == [50]
    assert read_file(house.fs, LOG_DIR / HIGH_WATERMARKS)


def test_a_write_begun_before_the_disk_was_full_is_no_evidence() -> None:
    clock, disk, fs = ManualClock(), ManualDisk(), MemoryFileSystem()
    fs.mkdir(LOG_DIR)
    health = LogDirHealth(fs, LOG_DIR, clock, disk, RESERVE_BYTES, lambda: None)
    health.write_failed("writing something", OSError(errno.EIO, "it failed"))
    clock.advance(10)
    health.tick()
    assert disk.busy, "a write is being tried"
    health.write_failed("append on orders-0", OSError(errno.ENOSPC, "it is full"))
    disk.finish_one()
    assert health.is_full
    disk.finish_all()
    assert health.is_full
    health.tick()
    disk.finish_all()
    assert not health.is_full
