from itertools import pairwise
from uuid import UUID

import pytest

from broker_runtime.config import BrokerConfig, TopicConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import RECOVERY_POINTS, read_offsets, write_offsets
from broker_runtime.storage.disk.filesystem import read_file
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.log_syncs import LogSyncs
from broker_runtime.storage.log_dir import upkeep
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse, values_of

FOLDER = LOG_DIR / "orders-0"
FIRST = "00000000000000000000"


def _filled(config: TopicConfig | None = None, batches: int = 50) -> LogHouse:
    house = LogHouse(config if config is not None else TopicConfig(segment_bytes=1000, index_interval_bytes=100))
    for number in range(batches):
        house.append(b"%02d" % number)
    return house


def _fill(log: Log, batches: int) -> None:
    for number in range(batches):
        log.append(memoryview(encode_batch([(b"k", b"%02d" % number)], log.place.clock.wall_ms())))


EVERYTHING = [b"%02d" % number for number in range(50)]


def test_a_clean_restart_scans_nothing_and_says_so() -> None:
    house = _filled()
    report = house.restart()
    assert (report.clean, report.segments_scanned, report.bytes_truncated) == (True, 0, 0)
    assert str(report).startswith("log recovery after clean shutdown: 1 partitions, 0 of ")
    assert values_of(house.log) == EVERYTHING
    assert house.append(b"next") == 50


def test_the_marker_counts_for_one_start_only() -> None:
    house = _filled()
    house.restart()
    assert not house.kill().clean


def test_after_a_kill_everything_acknowledged_is_there() -> None:
    house = _filled()
    report = house.kill()
    assert not report.clean
    assert report.segments_scanned == report.segments_total > 1
    assert values_of(house.log) == EVERYTHING


def test_segments_below_the_recovery_point_are_not_scanned_again() -> None:
    house = _filled()
    house.log.flush()
    house.clock.advance(61)
    at_once(house.logs.tick())
    house.append(b"more")
    report = house.kill()
    assert report.segments_scanned == 1
    assert values_of(house.log) == [*EVERYTHING, b"more"]


def test_a_torn_tail_is_cut() -> None:
    house = _filled()
    file = house.fs.open(FOLDER / f"{house.log.segments[-1].base_offset:020d}.log")
    file.write_at([b"\x00" * 40], file.size())
    report = house.kill()
    assert report.bytes_truncated == 40
    assert house.log.segments[-1].file.size() == house.log.segments[-1].size
    assert "40 bytes truncated" in str(report)
    assert values_of(house.log) == EVERYTHING
    assert house.append(b"next") == 50


def test_a_flipped_bit_ends_the_log_before_its_batch() -> None:
    house = _filled()
    third = house.log.segments[2]
    byte = third.file.pread(1, 70)
    third.file.write_at([bytes([byte[0] ^ 1])], 70)
    report = house.kill()
    assert report.segments_dropped > 0
    assert house.log.log_end_offset == third.base_offset
    assert values_of(house.log) == EVERYTHING[: third.base_offset]


def test_a_segment_that_lost_its_tail_at_a_batch_boundary_ends_the_log() -> None:
    house = _filled()
    second = house.log.segments[1]
    cut_at = house.log.read(second.base_offset, 100, min_one=True, up_to=50)
    assert cut_at is not None
    second.file.truncate(cut_at.length)
    report = house.kill()
    assert (report.bytes_truncated, report.segments_dropped > 0) == (0, True)
    assert house.log.log_end_offset == second.base_offset + 1
    assert values_of(house.log) == EVERYTHING[: second.base_offset + 1]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_indexes_that_do_not_fit_are_rebuilt(suffix: str, damage: str) -> None:
    house = _filled()
    before = read_file(house.fs, FOLDER / (FIRST + suffix))
    house.logs.close()
    if damage == "missing":
        house.fs.unlink(FOLDER / (FIRST + suffix))
    else:
        house.fs.open(FOLDER / (FIRST + suffix)).truncate(5)
    house.kill()
    assert house.report.indexes_rebuilt == 1
    assert read_file(house.fs, FOLDER / (FIRST + suffix)) == before
    assert values_of(house.log) == EVERYTHING


def test_the_checkpoints_have_kafkas_form() -> None:
    house = _filled()
    house.log.delete_records(7)
    house.logs.close()
    assert read_file(house.fs, LOG_DIR / "recovery-point-offset-checkpoint") == b"0\n1\norders 0 50\n"
    assert read_file(house.fs, LOG_DIR / "log-start-offset-checkpoint") == b"0\n1\norders 0 7\n"
    metadata = read_file(house.fs, FOLDER / "partition.metadata")
    assert metadata == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n"
    assert house.fs.exists(LOG_DIR / ".kafka_cleanshutdown")


@pytest.mark.parametrize("content", [b"", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\nbroken\n"])
def test_a_damaged_checkpoint_means_checking_from_the_start(content: bytes) -> None:
    house = _filled()
    house.fs.open(LOG_DIR / "recovery-point-offset-checkpoint", create=True).write_at([content], 0)
    with pytest.raises(ValueError, match="not an offset checkpoint"):
        read_offsets(house.fs, LOG_DIR / "recovery-point-offset-checkpoint")
    assert house.kill().segments_scanned > 1
    assert values_of(house.log) == EVERYTHING


def test_offsets_read_back() -> None:
    house = LogHouse()
    offsets = {("b", 1): 5, ("a", 0): 2**40}
    write_offsets(house.fs, LOG_DIR / "x", offsets)
    assert read_offsets(house.fs, LOG_DIR / "x") == offsets
    assert read_offsets(house.fs, LOG_DIR / "none") == {}


def test_a_second_process_is_told_that_the_folder_is_taken() -> None:
    house = LogHouse()
    with pytest.raises(ConfigError, match="another process uses this folder"):
        LogManager(LOG_DIR, fs=house.fs, clock=house.clock).open(lambda _topic: TopicConfig())


def test_create_returns_the_log_that_is_there_and_refuses_another_topics() -> None:
    house = LogHouse()
    smaller = TopicConfig(max_message_bytes=10)
    assert house.logs.create("orders", 0, TOPIC_ID, smaller) is house.log
    assert house.log.config is smaller
    assert house.logs.get("orders", 0) is house.log
    with pytest.raises(KafkaError) as caught:
        house.logs.create("orders", 0, UUID(int=8), smaller)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_deleted_partition_disappears_at_once_and_its_files_later() -> None:
    house = _filled()
    region = house.log.read(0, 100, min_one=True, up_to=50)
    assert region is not None
    held = region.read()
    house.logs.delete("orders", 0)
    house.logs.delete("orders", 0)
    with pytest.raises(KafkaError, match="closed"):
        house.append(b"late")
    again = house.logs.create("orders", 0, UUID(int=9), house.config)
    assert again.log_end_offset == 0
    assert sum(name.endswith("-delete") for name in house.fs.listdir(LOG_DIR)) == 1
    house.clock.advance(60)
    at_once(house.logs.tick())
    assert not any(name.endswith("-delete") for name in house.fs.listdir(LOG_DIR))
    assert region.read() == held


def test_a_crash_before_the_files_went_is_made_good_at_start() -> None:
    house = _filled()
    house.logs.delete("orders", 0)
    house.kill()
    assert house.log.log_end_offset == 0
    at_once(house.logs.tick())
    assert [name for name in house.fs.listdir(LOG_DIR) if "delete" in name] == []


def test_a_synced_folder_without_a_topic_id_is_damaged_and_the_others_are_served() -> None:
    house = _filled()
    house.restart()
    house.fs.unlink(FOLDER / "partition.metadata")
    house.fs.unlink(LOG_DIR / ".sluicegate_partitions")
    with pytest.raises(KafkaError, match=r"partition\.metadata is missing"):
        house.kill()
    assert house.logs.create("other", 0, UUID(int=9), house.config).log_end_offset == 0


def test_a_folder_that_was_never_synced_and_lost_its_topic_id_is_set_aside() -> None:
    house = _filled()
    house.fs.unlink(FOLDER / "partition.metadata")
    house.kill()
    assert house.log.log_end_offset == 0
    assert len([name for name in house.fs.listdir(LOG_DIR) if name.endswith("-stray")]) == 1


def test_a_folder_that_a_crash_left_empty_is_removed() -> None:
    house = LogHouse()
    house.fs.mkdir(LOG_DIR / "half-3")
    house.kill()
    assert not house.fs.exists(LOG_DIR / "half-3")


def test_old_segments_go_by_time() -> None:
    house = _filled(TopicConfig(segment_bytes=1000, retention_ms=10_000, segment_ms=2**60))
    house.clock.advance(5)
    house.append(b"young")
    house.clock.advance(5.001)
    at_once(house.logs.tick())
    assert house.log.log_start_offset == house.log.segments[0].base_offset > 0
    assert values_of(house.log)[-1] == b"young"
    house.clock.advance(10)
    at_once(house.logs.tick())
    assert (house.log.log_start_offset, house.log.log_end_offset) == (51, 51)
    assert any(name.endswith(".deleted") for name in house.fs.listdir(FOLDER))
    house.clock.advance(60)
    at_once(house.logs.tick())
    assert any(name.endswith(".deleted") for name in house.fs.listdir(FOLDER)), "the next start would miss them"
    at_once(house.logs.tick())
    assert not any(name.endswith(".deleted") for name in house.fs.listdir(FOLDER))
    house.kill()
    assert house.append(b"on") == 51


def _timed(config: TopicConfig, check_ms: int, initial_delay_ms: int) -> LogHouse:
    """One old batch in a log whose retention is checked at these times."""
    house = LogHouse(config)
    times = BrokerConfig(log_retention_check_interval_ms=check_ms, log_initial_task_delay_ms=initial_delay_ms)
    house.logs.upkeep.configure(times)
    house.append(b"old", timestamp_ms=house.clock.wall_ms() - 100_000)
    return house


def _seconds_until_deleted(house: LogHouse) -> int:
    for second in range(1_000):
        at_once(house.logs.tick())
        if house.log.log_start_offset == house.log.log_end_offset:
            return second
        house.clock.advance(1)
    raise AssertionError("nothing was deleted")


def test_retention_is_checked_at_the_interval_of_the_broker() -> None:
    house = _timed(TopicConfig(retention_ms=50_000), 300_000, 30_000)
    assert _seconds_until_deleted(house) == 30
    house.append(b"old", timestamp_ms=house.clock.wall_ms() - 100_000)
    assert _seconds_until_deleted(house) == 300
    by_size = _timed(TopicConfig(retention_bytes=0), 7_000, 2_000)
    assert _seconds_until_deleted(by_size) == 2
    by_size.append(b"b")
    assert _seconds_until_deleted(by_size) == 7


def test_by_default_retention_is_checked_as_in_kafka() -> None:
    config = BrokerConfig()
    assert (config.log_retention_check_interval_ms, config.log_initial_task_delay_ms) == (300_000, 30_000)
    house = LogHouse()
    logs = LogManager(LOG_DIR, fs=house.fs.process_killed(), clock=house.clock)
    logs.open(lambda _topic: TopicConfig(retention_ms=50_000))
    log = logs.get("orders", 0)
    assert log is not None
    log.sole_replica = True
    log.append(memoryview(encode_batch([(b"k", b"v")], house.clock.wall_ms() - 100_000)))
    for _ in range(29):
        house.clock.advance(1)
        at_once(logs.tick())
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)


def test_a_check_of_more_logs_than_one_tick_takes_reaches_each_of_them_once() -> None:
    house = _timed(TopicConfig(retention_ms=50_000), 300_000, 5_000)
    others = [house.logs.create("many", number, TOPIC_ID, house.config) for number in range(300)]
    for log in others:
        log.append(memoryview(encode_batch([(b"k", b"v")], house.clock.wall_ms() - 100_000)))
    house.clock.advance(5)
    at_once(house.logs.tick())
    assert 200 < sum(log.log_start_offset for log in others) < 300
    house.clock.advance(1)
    at_once(house.logs.tick())
    assert all(log.log_start_offset == 1 for log in others)


def test_segments_below_the_start_of_a_log_do_not_wait_for_the_check() -> None:
    house = _timed(TopicConfig(segment_bytes=200), 300_000, 300_000)
    for _ in range(10):
        house.append(b"v" * 50)
    house.log.delete_records(8)
    at_once(house.logs.tick())
    assert house.log.segments[0].base_offset > 0


def test_recovery_points_are_written_at_the_interval_of_the_broker() -> None:
    house = LogHouse()
    house.logs.upkeep.configure(BrokerConfig(log_flush_offset_checkpoint_interval_ms=5_000))
    house.append(b"a")
    house.log.flush()
    house.clock.advance(4)
    at_once(house.logs.tick())
    assert read_offsets(house.fs, LOG_DIR / RECOVERY_POINTS) == {}
    house.clock.advance(1)
    at_once(house.logs.tick())
    assert read_offsets(house.fs, LOG_DIR / RECOVERY_POINTS) == {("orders", 0): 1}


def test_what_recovery_has_found_is_synced_soon_after_the_start() -> None:
    house = _filled()
    house.kill()
    assert house.log.recovery_point == 0, "a start does not wait for as many fsyncs as there are partitions"
    at_once(house.logs.tick())
    assert house.log.recovery_point == 50
    house.lose_power(3)
    assert values_of(house.log) == EVERYTHING


def test_recovered_records_are_synced_at_once_if_acknowledgements_require_it() -> None:
    house = _filled(TopicConfig(segment_bytes=1000, flush_messages=1))
    house.kill()
    assert house.log.recovery_point == house.log.counted_end == 50
    house.lose_power(3)
    assert values_of(house.log) == EVERYTHING


def test_expired_records_do_not_come_back_after_a_power_loss() -> None:
    house = _filled(TopicConfig(segment_bytes=1000, retention_bytes=2000))
    house.log.flush()
    at_once(house.logs.tick())
    start = house.log.log_start_offset
    house.lose_power(4)
    assert house.log.log_start_offset == start > 0


def test_retention_by_size_deletes_whole_old_segments() -> None:
    house = _filled(TopicConfig(segment_bytes=1000, retention_bytes=2000))
    sizes = [segment.size for segment in house.log.segments]
    at_once(house.logs.tick())
    assert house.log.size >= 2000
    assert house.log.size - house.log.segments[0].size < 2000
    assert house.log.size < sum(sizes)


@pytest.mark.parametrize("policy", [("compact",)])
def test_compacted_logs_keep_everything(policy: tuple[str, ...]) -> None:
    house = _filled(TopicConfig(segment_bytes=1000, retention_bytes=0, retention_ms=1, cleanup_policy=policy))
    house.clock.advance(1000)
    at_once(house.logs.tick())
    assert values_of(house.log) == EVERYTHING


def test_records_above_the_high_watermark_are_not_expired() -> None:
    house = LogHouse(TopicConfig(retention_ms=1))
    house.log.sole_replica = False
    house.append(b"a")
    house.clock.advance(10)
    at_once(house.logs.tick())
    assert (house.log.log_start_offset, house.log.log_end_offset) == (0, 1)


def test_an_idle_segment_is_rolled_by_time() -> None:
    house = LogHouse(TopicConfig(segment_ms=1000))
    house.append(b"a")
    house.clock.advance(2)
    at_once(house.logs.tick())
    house.clock.advance(2)
    at_once(house.logs.tick())
    assert [segment.base_offset for segment in house.log.segments] == [0, 1]


def test_small_sealed_segments_of_many_logs_are_synced_together() -> None:
    house = _filled()
    others = [house.logs.create("orders", number, TOPIC_ID, house.config) for number in range(1, 4)]
    for log in others:
        _fill(log, 50)
    at_once(house.logs.tick())
    for log in (house.log, *others):
        assert log.recovery_point == log.segments[-1].base_offset > 0


def test_sealed_segments_are_synced_by_one_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_SEALED_BYTES_PER_TICK", 1500)
    house = _filled()
    points = []
    for _ in range(3):
        at_once(house.logs.tick())
        points.append(house.log.recovery_point)
    assert points == [segment.base_offset for segment in house.log.segments[1:4]]


def test_one_tick_syncs_a_limited_number_of_sealed_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_SEALED_PER_TICK", 4)
    house = _filled()
    second, third = (house.logs.create("orders", number, TOPIC_ID, house.config) for number in (1, 2))
    for log in (second, third):
        _fill(log, 50)
    assert len(house.log.segments) == 4
    at_once(house.logs.tick())
    assert house.log.recovery_point == house.log.segments[3].base_offset
    assert second.recovery_point == second.segments[1].base_offset
    assert third.recovery_point == 0


def test_one_tick_checks_a_limited_number_of_logs_for_sealed_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_LOGS_PER_TICK", 2)
    checked, real = list[int](), LogSyncs.begin_sealed

    def noted(syncs: LogSyncs, segments_max: int = 1, bytes_max: int = 0) -> tuple[int, int] | None:
        checked[-1] += 1
        return real(syncs, segments_max, bytes_max)

    monkeypatch.setattr(LogSyncs, "begin_sealed", noted)
    house = _filled()
    others = [house.logs.create("orders", number, TOPIC_ID, house.config) for number in range(1, 6)]
    for log in others:
        _fill(log, 50)
    for _ in range(12):
        checked.append(0)
        at_once(house.logs.tick())
    assert max(checked) <= 2
    assert all(log.recovery_point == log.segments[-1].base_offset > 0 for log in (house.log, *others))


def test_a_tick_maintains_some_logs_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_LOGS_OF_A_STEP", 2)
    maintained, real = list[Log](), upkeep.LogUpkeep._maintain

    def noted(self: upkeep.LogUpkeep, log: Log, now_ms: int) -> None:
        maintained.append(log)
        real(self, log, now_ms)

    monkeypatch.setattr(upkeep.LogUpkeep, "_maintain", noted)
    house = LogHouse()
    for number in range(1, 8):
        house.logs.create("orders", number, TOPIC_ID, house.config)
    counts = [0, *(len(maintained) for _ in house.logs.tick()), len(maintained)]
    assert max(after - before for before, after in pairwise(counts)) <= 2
    assert len(maintained) == len(set(maintained)) == 8


def test_sealed_segments_are_synced_beside_the_log() -> None:
    house = _filled()
    disk = ManualDisk()
    logs = LogManager(LOG_DIR, fs=house.fs.process_killed(), clock=house.clock, disk=disk)
    logs.open(lambda _topic: house.config)
    log = logs.get("orders", 0)
    assert log is not None
    at_once(logs.tick())
    disk.finish_one()
    assert log.recovery_point == 50, "what the crash has left"
    _fill(log, 30)
    sealed = log.segments[-2].next_offset
    for _ in range(3):
        at_once(logs.tick())
    assert (disk.busy, log.recovery_point) == (1, 50)
    disk.finish_one()
    assert log.recovery_point == sealed > 50
    logs.close()
    assert log.recovery_point == 80


def test_a_full_disk_at_close_leaves_no_marker_and_loses_nothing() -> None:
    house = _filled()
    house.fs.capacity_bytes = 0
    house.logs.close()
    assert not house.fs.exists(LOG_DIR / ".kafka_cleanshutdown")
    assert not house.kill().clean
    assert values_of(house.log) == EVERYTHING


def test_a_failed_sync_stops_the_log_and_leaves_no_clean_marker() -> None:
    house = _filled()
    house.fs.failing_fsync = True
    at_once(house.logs.tick())
    house.fs.failing_fsync = False
    with pytest.raises(KafkaError, match="fsync failed"):
        house.append(b"x")
    house.logs.close()
    assert not house.fs.exists(LOG_DIR / ".kafka_cleanshutdown")
    assert values_of(house.log) == EVERYTHING


def test_nothing_of_a_log_that_could_not_be_deleted_counts_for_a_new_one_of_its_name() -> None:
    house = LogHouse(TopicConfig(segment_bytes=70))
    for _ in range(3):
        house.append(b"old")

    def fail() -> None:
        raise OSError("input/output error")

    house.fs.before_change = fail
    with pytest.raises(KafkaError):
        house.logs.delete("orders", 0)
    house.fs.before_change = lambda: None
    house.log = house.logs.create("orders", 0, UUID(int=8), house.config)
    house.log.sole_replica = True
    house.append(b"new")
    house.logs.close()
    house.logs.open(lambda _topic: house.config)
    again = house.logs.get("orders", 0)
    assert again is not None
    assert (again.topic_id, again.log_start_offset, again.log_end_offset) == (UUID(int=8), 0, 1)
