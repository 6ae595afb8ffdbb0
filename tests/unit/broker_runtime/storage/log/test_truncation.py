"""Cutting a log: its content afterwards, and after a crash at any moment of the cut."""

import errno
import random
from collections.abc import Callable, Iterator

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches
from kafka_bytes.batches import Header, ProducerStamp
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.logs.logs import LOG_DIR, LogHouse, values_of
from tests.support.logs.replica_model import ModelBatch, stored

CONFIG = TopicConfig(segment_bytes=300, index_interval_bytes=80)


def _filled(config: TopicConfig = CONFIG) -> LogHouse:
    """30 offsets in batches of two, over several segments; epoch 1 until 12, epoch 4 until 20, then epoch 5."""
    house = LogHouse(config)
    for number in range(15):
        epoch = 1 if number < 6 else 4 if number < 10 else 5
        house.append(b"a%02d" % number, b"b%02d" % number, producer=ProducerStamp(9, 0, 2 * number), leader_epoch=epoch)
    assert len(house.log.segments) > 4
    return house


def _reopened(fs: MemoryFileSystem, house: LogHouse) -> LogManager:
    logs = LogManager(LOG_DIR, fs=fs, clock=house.clock)
    logs.open(lambda _topic: house.config)
    return logs


@pytest.mark.parametrize(("offset", "end"), [(29, 28), (28, 28), (13, 12), (12, 12), (11, 10), (2, 2), (1, 0), (0, 0)])
def test_truncation_removes_whole_batches_and_appends_continue(offset: int, end: int) -> None:
    house = _filled()
    before = stored(house.log)
    house.follower.truncate_to(offset)
    assert house.log.log_end_offset == house.log.high_watermark == end
    assert stored(house.log) == [batch for batch in before if batch.end <= end]
    assert house.append(b"new", leader_epoch=7) == end
    assert house.log.end_offset_for_epoch(5) == (max((b.epoch for b in before if b.end <= end), default=5), end)
    for again in (house.kill, house.restart):
        again()
        assert [batch.base for batch in stored(house.log)] == [*range(0, end, 2), end]


def test_nothing_is_cut_beyond_the_end() -> None:
    house = _filled()
    house.follower.truncate_to(30)
    house.follower.truncate_to(99)
    assert house.log.log_end_offset == 30


def test_the_start_of_the_log_goes_down_with_its_end() -> None:
    house = _filled()
    house.log.delete_records(9)
    house.follower.truncate_to(7)
    assert (house.log.log_start_offset, house.log.log_end_offset, house.log.high_watermark) == (6, 6, 6)
    house.kill()
    assert (house.log.log_start_offset, house.log.log_end_offset) == (6, 6)


def test_a_producer_goes_on_after_what_was_cut() -> None:
    house = _filled()
    house.follower.truncate_to(20)
    with pytest.raises(KafkaError) as caught:
        house.append(b"x", producer=ProducerStamp(9, 0, 30), leader_epoch=5)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert house.append(b"x", producer=ProducerStamp(9, 0, 20), leader_epoch=5) == 20


def test_beginning_anew_forgets_producers_epochs_and_the_old_start() -> None:
    house = _filled()
    house.follower.restart_at(500)
    for again in (lambda: None, house.kill, house.restart):
        again()
        log = house.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.latest_epoch) == (500, 500, 500, -1)
        assert len(log.producers) == 0
    assert house.append(b"x", producer=ProducerStamp(9, 0, 77), leader_epoch=8) == 500


def test_offsets_behind_the_cut_do_not_vouch_for_what_is_written_next() -> None:
    """The recovery point on disk was 30: a power loss after a cut to 10 and appends up to 40 is noticed."""
    house = _filled()
    house.log.flush()
    house.clock.advance(61)
    at_once(house.logs.tick())
    house.follower.truncate_to(10)
    for number in range(15):
        house.append(b"new%02d" % number, b"new", leader_epoch=9)
    house.fs.fsync_dir(LOG_DIR / "orders-0")
    kept = stored(house.log)
    for seed in range(40):
        log = _reopened(house.fs.power_loss(random.Random(seed)), house).get("orders", 0)
        assert log is not None
        assert log.log_end_offset >= 10
        found = stored(log)
        assert found == kept[: len(found)]
        assert log.high_watermark <= 10


def _cut(house: LogHouse) -> None:
    house.follower.truncate_to(15)


def _anew(house: LogHouse) -> None:
    house.follower.restart_at(100)


@pytest.mark.parametrize("cut", [_cut, _anew])
@pytest.mark.parametrize("synced", [True, False])
def test_a_crash_at_any_moment_leaves_a_beginning_of_the_log(cut: Callable[[LogHouse], None], synced: bool) -> None:
    house = _filled()
    if synced:
        house.log.flush()
        house.clock.advance(61)
        at_once(house.logs.tick())
    before = stored(house.log)
    moments: list[MemoryFileSystem] = []
    house.fs.before_change = lambda: moments.append(house.fs.copy())
    cut(house)
    house.fs.before_change = lambda: None
    after = stored(house.log)
    end = house.log.log_end_offset
    moments.append(house.fs.copy())
    assert len(moments) > 10
    for number, moment in enumerate(moments):
        for crashed in (moment.process_killed(), *(moment.power_loss(random.Random(number + n)) for n in range(3))):
            log = _reopened(crashed, house).get("orders", 0)
            if log is None:
                assert not synced
                continue
            found: list[ModelBatch] = stored(log)
            assert found == before[: len(found)]
            assert len(found) >= len(after) or not synced
            assert log.latest_epoch == (found[-1].epoch if found else -1)
            if number == len(moments) - 1 and synced:
                assert (found, log.log_end_offset) == (after, end)


def test_a_disk_that_fails_in_the_middle_stops_the_log() -> None:
    house = _filled()
    house.fs.failing_truncate = True
    with pytest.raises(KafkaError) as caught:
        house.follower.truncate_to(15)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    house.fs.failing_truncate = False
    with pytest.raises(KafkaError, match="restart"):
        house.append(b"x", leader_epoch=6)
    house.kill()
    assert house.log.log_end_offset in range(14, 31)


@pytest.mark.parametrize("damage", ["none", "offsets", "times"])
@pytest.mark.parametrize("seed", range(6))
def test_state_after_a_truncation_equals_a_scan_of_the_remaining_batches(seed: int, damage: str) -> None:
    chance = random.Random(seed)
    house = LogHouse(TopicConfig(index_interval_bytes=chance.choice([0, 200, 400])))
    times = []
    for number in range(200):
        times.append(chance.randrange(1_000) if seed % 2 else number + chance.randrange(3))
        house.append(b"a", b"b", timestamp_ms=times[-1])
        if not number % 70:
            house.restart()
    while len(times) > 3:
        del times[chance.randrange(len(times) // 2, len(times)) :]
        indexes = house.log.segments[0].indexes
        if damage != "none":
            index = indexes.offsets if damage == "offsets" else indexes.times
            for _ in range(3 if len(index.entries) else 0):
                index.entries.data[chance.randrange(index.size)] ^= 1 << chance.randrange(8)
        house.follower.truncate_to(2 * len(times))
        segment = house.log.segments[0]
        assert house.log.log_end_offset == 2 * len(times)
        if damage != "times":
            # A wrong but plausible time cannot be recognized.
            newest = times.index(max(times))
            assert (segment.max_timestamp, segment.offset_of_max) == (max(times), 2 * newest + 1)
            assert segment.first_timestamp == times[0]
        for offset in range(house.log.log_end_offset):
            (base, *_), _batch = next(iter_headers(house, offset))
            assert base == offset - offset % 2


def iter_headers(house: LogHouse, offset: int) -> Iterator[tuple[Header, memoryview]]:
    region = house.log.read(offset, 1, min_one=True, up_to=house.log.log_end_offset)
    assert region is not None
    return iter_batches(region.read())


class _BootedHouse(LogHouse):
    """Tells the manager whether the page cache was kept."""

    boots = 1

    def manager(self) -> LogManager:
        return LogManager(LOG_DIR, fs=self.fs, clock=self.clock, boot_id=f"boot {self.boots}")


@pytest.mark.parametrize("failing", range(1, 10))
@pytest.mark.parametrize("has_folder", [True, False])
def test_a_log_start_lost_by_a_power_loss_after_a_failed_truncation_is_not_damage(
    failing: int, has_folder: bool
) -> None:
    house = _BootedHouse()
    house.logs.run_record.registered(1)
    if has_folder:
        house.append(b"synced")
        house.follower.truncate_to(0)
        house.log.flush()
        house.log.sole_replica = True
    for _ in range(4):
        house.append(b"lost")
    changes = iter(range(1, 100))

    def fail() -> None:
        if next(changes) == failing:
            raise OSError(errno.EIO, "fault")

    house.fs.before_change = fail
    with pytest.raises(KafkaError):
        house.follower.truncate_to(3)
    house.fs.before_change = lambda: None
    house.log.delete_records(3)
    house.boots = 2
    house.lose_power(1)
    house.follower.truncate_to(0)
    house.log.sole_replica = True
    house.append(b"kept")
    house.kill()
    assert not house.logs.damaged
    assert values_of(house.log) == [b"kept"]
