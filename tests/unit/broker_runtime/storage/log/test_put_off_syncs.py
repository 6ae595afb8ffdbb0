"""A file that cannot be opened for a sync is not a failed fsync: the sync is postponed, with no promise before it."""

import errno
import random
from pathlib import Path

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.epochs import EPOCHS_FILE
from broker_runtime.storage.disk.filesystem import OsFileSystem, read_file
from broker_runtime.storage.segment.segment_indexes import SegmentIndexes
from kafka_bytes.batches import ProducerStamp
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.logs import LogHouse, values_of

ONE = 70
"""Bytes of a batch of one record with a one-byte key and value."""
PAUSE_MAX_S = 60.0


class House(LogHouse):
    """Syncs each record, on a manual disk, with a segment for each record."""

    def __init__(self, config: TopicConfig | None = None) -> None:
        self.slow_disk = ManualDisk()
        super().__init__(config or TopicConfig(flush_messages=1, segment_bytes=ONE), self.slow_disk)
        at_once(self.logs.tick())
        self.slow_disk.finish_all()
        self.logs.run_record.registered(7)
        self.sequence = 0

    def send(self) -> int:
        producer = ProducerStamp(9, 0, self.sequence)
        self.sequence += 1
        return self.append(b"%d" % (self.sequence - 1), producer=producer)

    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        at_once(self.logs.tick())
        self.slow_disk.finish_all()

    @property
    def vouches(self) -> bool:
        """Whether this run still vouches for its data."""
        return self.logs.run_record.epoch == 7


def of_snapshots(house: House, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make the opening of snapshots fail."""
    real = house.fs.open

    def failing(path: Path, *, create: bool = False) -> object:
        if path.suffix == ".snapshot" and not create:
            raise OSError(number, "cannot be opened")
        return real(path, create=create)

    monkeypatch.setattr(house.fs, "open", failing)


def test_a_shortage_of_descriptors_puts_a_sync_off_and_takes_nothing_offline() -> None:
    house = House()
    house.send()
    house.send()
    house.fs.no_descriptors = True
    house.slow_disk.finish_all()
    assert (house.log.failure, house.vouches) == (None, True)
    assert (house.log.counted_end, house.log.recovery_point) == (0, 0), "nothing is promised yet"
    house.fs.no_descriptors = False
    house.tick(1)
    assert (house.log.counted_end, house.log.recovery_point) == (2, 2)
    house.send()
    house.slow_disk.finish_all()
    assert house.log.counted_end == 3


@pytest.mark.parametrize("seed", range(8))
def test_what_a_sync_was_put_off_with_is_durable_with_the_next(seed: int) -> None:
    """The snapshot of producers, the indexes, the epochs, the names of new segments."""
    house = House()
    for _ in range(3):
        house.send()
    house.fs.no_descriptors = True
    house.slow_disk.finish_all()
    house.fs.no_descriptors = False
    house.tick(1)
    house.lose_power(seed, keeps_names=seed % 2 == 1)
    assert values_of(house.log) == [b"0", b"1", b"2"]
    assert house.append(b"2", producer=ProducerStamp(9, 0, 2)) == 2, "the producer is known"
    assert house.log.log_end_offset == 3


@pytest.mark.parametrize("is_flushed", [False, True])
def test_epochs_that_have_their_name_are_durable_with_the_next_sync(
    monkeypatch: pytest.MonkeyPatch, is_flushed: bool
) -> None:
    """The sync that renamed the file could not open the folder. The next one found the file in place."""
    house = House(TopicConfig(flush_messages=1))
    house.append(b"0", leader_epoch=1)
    house.slow_disk.finish_all()
    house.append(b"1", leader_epoch=2)

    def failing(path: Path) -> None:
        raise OSError(errno.EMFILE, f"{path} cannot be opened")

    with monkeypatch.context() as patched:
        patched.setattr(house.fs, "fsync_dir", failing)
        if is_flushed:
            with pytest.raises(KafkaError, match="a sync on orders-0 failed"):
                house.log.flush()
        else:
            house.slow_disk.finish_all()
    house.tick(1)
    assert house.log.recovery_point == 2
    left = house.fs.copy().power_loss(random.Random(0))
    assert read_file(left, house.log.files.place.folder / EPOCHS_FILE) == house.log.files.epochs.encode()


def test_a_sync_that_was_put_off_begins_again_after_a_pause_that_grows() -> None:
    house = House()
    house.fs.no_descriptors = True
    for _ in range(200):
        house.fs.no_descriptors = False
        house.append(b"v")
        house.fs.no_descriptors = True
        house.tick(0.5)
    assert 4 < house.logs.dir_health.failed_writes < 20, "neither appends nor ticks begin one before"
    assert house.log.failure is None
    house.fs.no_descriptors = False
    house.tick(PAUSE_MAX_S)
    assert house.log.counted_end == 200


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
def test_a_shortage_never_takes_a_log_offline(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    house.send()
    house.send()
    of_snapshots(house, monkeypatch, number)
    for _ in range(100):
        house.tick(PAUSE_MAX_S)
    assert (house.log.failure, house.vouches) == (None, True)


def test_a_permanent_open_error_takes_the_log_offline_after_twenty_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    house.send()
    house.send()
    of_snapshots(house, monkeypatch, errno.EACCES)
    house.slow_disk.finish_all()
    for _ in range(18):
        house.tick(PAUSE_MAX_S)
    assert house.log.failure is None
    house.tick(PAUSE_MAX_S)
    assert "the last of 20 attempts to sync failed ([Errno 13] cannot be opened); restart" in (house.log.failure or "")


def test_the_log_directory_tells_of_it_until_ten_quiet_seconds_have_passed() -> None:
    house = House()
    house.send()
    house.fs.no_descriptors = True
    house.slow_disk.finish_all()
    why = house.logs.dir_health.failure or ""
    assert "opening the files of orders-0 to sync them failed: EMFILE: " in why
    house.fs.no_descriptors = False
    house.tick(11)
    assert house.logs.dir_health.failure is None


def test_a_failed_fsync_takes_the_log_offline_at_once() -> None:
    house = House()
    house.send()
    house.fs.failing_fsync = True
    house.slow_disk.finish_all()
    assert "has accepted no records since an fsync failed" in (house.log.failure or "")
    assert not house.vouches


def test_old_segments_are_gone_for_good_once_their_folder_could_be_opened() -> None:
    house = House()
    for _ in range(3):
        house.send()
        house.slow_disk.finish_all()
    house.log.delete_records(2)
    house.fs.no_descriptors = True
    at_once(house.logs.tick())
    house.slow_disk.finish_all()
    assert house.log.failure is None
    assert house.log.files.old.durable_base == 0, "a power loss may bring them back"
    house.fs.no_descriptors = False
    house.tick(1)
    assert house.log.files.old.durable_base == house.log.segments[0].base_offset == 2


def test_a_cut_does_not_begin_where_files_cannot_be_opened() -> None:
    house = House(TopicConfig())
    house.log.sole_replica = False
    for value in (b"a", b"b", b"c"):
        house.append(value, leader_epoch=1)
    house.fs.no_descriptors = True
    for cut in (house.follower.truncate_to, house.follower.restart_at):
        with pytest.raises(KafkaError, match="opening files for a truncation") as refused:
            cut(1)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (house.log.failure, house.log.log_end_offset) == (None, 3)
    house.fs.no_descriptors = False
    house.follower.truncate_to(1)
    assert house.log.log_end_offset == 1


def test_indexes_that_were_taken_and_not_synced_are_taken_again(tmp_path: Path) -> None:
    indexes = SegmentIndexes(OsFileSystem(), tmp_path, 0)
    indexes.create()
    indexes.offsets.entries.append(1, 100)
    indexes.times.entries.append(1_000, 1)
    assert len(indexes.take_unsynced()) == 2
    assert indexes.take_unsynced() == []
    indexes.put_back()
    assert len(indexes.take_unsynced()) == 2


def test_records_are_taken_though_their_index_cannot_be_opened() -> None:
    """Previously the producer's connection was closed, with the batch in the file and not counted."""
    house = House(TopicConfig(index_interval_bytes=ONE))
    house.append(b"0")
    house.fs.no_descriptors = True
    for number in range(1, 4):
        assert house.append(b"%d" % number) == number
    house.fs.no_descriptors = False
    for number in range(4, 8):
        house.append(b"%d" % number)
    assert len(house.log.segments[0].indexes.offsets.entries) > 0
    house.kill()
    assert values_of(house.log) == [b"%d" % number for number in range(8)]
