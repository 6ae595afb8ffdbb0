"""The cleaner's choice of a log, its speed limit, and the logs that it cannot clean."""

import asyncio
from uuid import UUID

import pytest

from broker_runtime.config import BrokerConfig, TopicConfig
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.compaction import cleaning
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run
from tests.support.logs.logs import LOG_DIR
from tests.support.logs.packed_batches import with_body

CONFIG = TopicConfig(cleanup_policy=("compact",), segment_bytes=500)


class Folder:
    """Several logs and their cleaner."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.fs = MemoryFileSystem()
        self.logs = LogManager(LOG_DIR, fs=self.fs, clock=self.clock)
        self.logs.open(lambda _topic: CONFIG)
        self.cleaner = self.logs.cleaner

    def log(self, topic: str, dirty: int, config: TopicConfig = CONFIG) -> Log:
        made = self.logs.create(topic, 0, UUID(int=hash(topic) & 0xFFFF), config)
        self.fill(made, dirty)
        return made

    def fill(self, log: Log, batches: int) -> None:
        for number in range(batches):
            log.append(memoryview(encode_batch([(b"k%d" % (number % 3), b"v" * 50)], self.clock.wall_ms())))
        if batches:
            log.files.roll()
            log.flush()

    def clean(self) -> bool:
        return run(self.cleaner.clean_filthiest(), self.clock)

    def clean_all(self) -> int:
        count = 0
        while self.clean():
            count += 1
        return count


def test_the_filthiest_log_is_cleaned_first_and_one_that_is_clean_enough_is_not() -> None:
    folder = Folder()
    first, second = folder.log("first", 40), folder.log("second", 10)
    plain = folder.log("plain", 40, TopicConfig(segment_bytes=500))
    assert folder.clean_all() == 2
    assert (first.first_dirty_offset, second.first_dirty_offset, plain.first_dirty_offset) == (40, 10, 0)
    folder.fill(first, 2)
    assert folder.clean_all() == 0
    folder.fill(second, 40)
    folder.fill(first, 40)
    assert folder.clean()
    assert {first.first_dirty_offset, second.first_dirty_offset} == {40, 50}
    assert folder.cleaner.figures.max_dirty_ratio > 0.5
    assert folder.cleaner.figures.cleanings == 3


def test_records_younger_than_the_least_lag_stay() -> None:
    folder = Folder()
    config = TopicConfig(cleanup_policy=("compact",), segment_bytes=500, min_compaction_lag_ms=60_000)
    log = folder.log("lagging", 20, config)
    assert not folder.clean()
    folder.clock.advance(61)
    folder.fill(log, 20)
    assert folder.clean()
    assert log.first_dirty_offset == 20


def test_a_record_that_waits_for_too_long_has_its_log_cleaned_and_its_segment_rolled() -> None:
    folder = Folder()
    config = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=60_000)
    log = folder.log("impatient", 0, config)
    for _ in range(3):
        log.append(memoryview(encode_batch([(b"k", b"v")], folder.clock.wall_ms())))
    assert not folder.clean()
    folder.clock.advance(61)
    at_once(folder.logs.tick())
    log.flush()
    assert folder.clean()
    assert log.first_dirty_offset == 3
    assert folder.cleaner.figures.compaction_delay_s == pytest.approx(1)


def test_what_is_not_synced_is_synced_first() -> None:
    folder = Folder()
    log = folder.logs.create("new", 0, UUID(int=1), CONFIG)
    for _ in range(40):
        log.append(memoryview(encode_batch([(b"k", b"v" * 50)], folder.clock.wall_ms())))
    assert not folder.clean()
    for _ in range(10):
        folder.clean()
    assert log.first_dirty_offset > 20


def test_a_log_that_cannot_be_cleaned_is_counted_and_others_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    bad, good = folder.log("bad", 60), folder.log("good", 20)
    wrong = bytearray(with_body(1, encode_batch([(b"k", b"v")], folder.clock.wall_ms()), b"not gzip"))
    wrong[:8], wrong[12:16] = bad.log_end_offset.to_bytes(8, "big"), bytes(4)
    FollowerLog(bad).append(memoryview(wrong))
    folder.fill(bad, 1)
    folder.clean_all()
    assert (bad.first_dirty_offset, good.first_dirty_offset) == (0, 20)
    assert "bad-0 cannot be cleaned" in caplog.text
    figures = folder.cleaner.figures
    assert figures.uncleanable_partitions == 1
    assert figures.uncleanable_bytes == sum(segment.size for segment in bad.segments[:-1])
    assert [name for name in folder.fs.listdir(bad.place.folder) if name.endswith(".cleaned")] == []
    folder.logs.delete("bad", 0)
    folder.clean_all()
    assert figures.uncleanable_partitions == 0


@pytest.mark.parametrize("where", ["fill_map", "write_kept", "grouped"])
def test_a_mistake_in_the_cleaner_costs_one_log_its_cleaning_and_the_broker_nothing(
    where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder()
    first, second = folder.log("first", 60), folder.log("second", 20)
    size, original, left = first.size, getattr(cleaning, where), [1]

    def mistaken(*args: object) -> object:
        if left:
            raise ZeroDivisionError(left.pop())
        return original(*args)

    monkeypatch.setattr(cleaning, where, mistaken)
    folder.clean_all()
    assert (first.first_dirty_offset, second.first_dirty_offset) == (0, 20)
    assert "first-0 cannot be cleaned" in caplog.text
    assert "Traceback" in caplog.text
    assert (folder.cleaner.figures.uncleanable_partitions, first.size) == (1, size)
    assert [name for name in folder.fs.listdir(first.place.folder) if name.endswith(".cleaned")] == []
    folder.fill(first, 1)


def test_a_full_disk_postpones_its_large_log_while_others_are_cleaned() -> None:
    folder = Folder()
    large = folder.log("large", 40, TopicConfig(cleanup_policy=("compact",), segment_bytes=4000))
    small = folder.log("small", 4)
    folder.fs.capacity_bytes = folder.fs.used_bytes() + (16 << 20) + small.size
    folder.clean_all()
    assert (large.first_dirty_offset, small.first_dirty_offset) == (0, 4)
    assert not folder.logs.dir_health.failed_writes
    folder.fs.capacity_bytes = None
    assert folder.clean()
    assert large.first_dirty_offset == 40
    assert folder.cleaner.figures.uncleanable_partitions == 0


def test_the_cleaners_bytes_per_second_are_limited() -> None:
    folder = Folder()
    folder.cleaner.config = BrokerConfig(log_cleaner_io_max_bytes_per_second=1000.0)
    log = folder.log("slow", 40)
    size = log.size
    began_s = folder.clock.monotonic()
    assert folder.clean()
    # All is read twice, and hardly anything is written.
    assert 2 * size / 1000 <= folder.clock.monotonic() - began_s <= 3 * size / 1000


def test_more_keys_than_memory_take_more_cleanings() -> None:
    folder = Folder()
    folder.cleaner.config = BrokerConfig(log_cleaner_dedupe_buffer_size=208 * 10, log_cleaner_io_buffer_load_factor=1.0)
    log = folder.logs.create("many", 0, UUID(int=1), TopicConfig(cleanup_policy=("compact",), segment_bytes=2000))
    for _ in range(2):
        for key in range(50):
            log.append(memoryview(encode_batch([(b"key %d" % key, b"v")], folder.clock.wall_ms())))
    log.files.roll()
    log.flush()
    ends = []
    while folder.clean():
        ends.append(log.first_dirty_offset)
    assert ends[:3] == [10, 20, 30]
    assert folder.cleaner.figures.map_utilization == 1


def test_the_cleaner_works_until_no_log_is_dirty_and_checks_again_after_a_while() -> None:
    folder = Folder()
    log = folder.log("first", 40)

    async def work() -> None:
        running = asyncio.create_task(folder.cleaner.run())
        await asyncio.sleep(1)
        assert log.first_dirty_offset == 40
        folder.fill(log, 80)
        await asyncio.sleep(10)
        assert log.first_dirty_offset == 40
        await asyncio.sleep(10)
        assert log.first_dirty_offset == 120
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(work(), folder.clock)
    folder.logs.close()
    again = LogManager(LOG_DIR, fs=folder.fs, clock=folder.clock)
    again.open(lambda _topic: CONFIG)
    found = again.get("first", 0)
    assert found is not None
    assert found.first_dirty_offset == 120
