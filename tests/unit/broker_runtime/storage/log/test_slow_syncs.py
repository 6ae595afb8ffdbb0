"""Slow syncs: nothing waits for them except what must not count before."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import RECOVERY_POINTS, read_offsets
from broker_runtime.storage.disk.disk import ThreadedDisk
from kafka_bytes.batches import ProducerStamp
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.logs import LOG_DIR, LogHouse, values_of

ONE = 70
"""Bytes of a batch of one record with a one-byte key and value."""


class SlowHouse(LogHouse):
    def __init__(self, config: TopicConfig | None = None) -> None:
        self.slow_disk = ManualDisk()
        super().__init__(config or TopicConfig(flush_messages=1), self.slow_disk)
        # The first one writes the high watermarks.
        at_once(self.logs.tick())
        self.slow_disk.finish_all()
        self.slow_disk.begun = 0

    @property
    def counted(self) -> tuple[int, int, int]:
        """(what counts, what consumers see, the log's end)."""
        return self.log.counted_end, self.log.high_watermark, self.log.log_end_offset


def test_an_append_does_not_wait_and_its_records_do_not_count_before_the_sync() -> None:
    house = SlowHouse()
    woken: list[str] = []
    house.append(b"a")
    house.log.add_waiter(0, lambda: woken.append("reader"))
    house.log.add_sync_waiter(0, lambda: woken.append("producer"))
    assert (house.counted, woken) == ((0, 0, 1), [])
    house.slow_disk.finish_one()
    assert (house.counted, house.log.recovery_point) == ((1, 1, 1), 1)
    assert sorted(woken) == ["producer", "reader"]


def test_one_sync_covers_all_that_waits() -> None:
    house = SlowHouse()
    for value in (b"a", b"b", b"c", b"d"):
        house.append(value)
    assert (house.slow_disk.begun, house.slow_disk.busy) == (1, 1)
    house.slow_disk.finish_one()
    assert house.counted == (1, 1, 4), "the first was under way when the others came"
    house.slow_disk.finish_one()
    assert house.counted == (4, 4, 4)
    assert house.slow_disk.begun == 2


def test_what_power_takes_before_the_sync_has_not_counted() -> None:
    for seed in range(20):
        house = SlowHouse()
        house.append(b"a")
        house.slow_disk.finish_all()
        house.append(b"b")
        counted = values_of(house.log)
        house.lose_power(seed, keeps_names=seed % 2 == 1)
        assert values_of(house.log)[: len(counted)] == counted == [b"a"]


@pytest.mark.parametrize("seed", range(5))
def test_acknowledged_records_survive_a_power_loss_with_epochs_and_segments(seed: int) -> None:
    house = SlowHouse(TopicConfig(flush_messages=1, segment_bytes=3 * ONE))
    for number in range(10):
        house.append(b"%d" % number, leader_epoch=number // 4)
        if number % 3 == 1:
            house.slow_disk.finish_one()
    counted = values_of(house.log)
    assert 0 < len(counted) < 10
    house.lose_power(seed, keeps_names=seed % 2 == 1)
    assert values_of(house.log)[: len(counted)] == counted
    assert house.log.end_offset_for_epoch(0) == (0, 4)


def test_of_flush_messages_n_all_but_n_minus_1_records_are_synced() -> None:
    house = SlowHouse(TopicConfig(flush_messages=3))
    house.append(b"a")
    house.append(b"b")
    assert (house.counted, house.slow_disk.begun) == ((2, 2, 2), 0)
    house.append(b"c")
    assert (house.counted, house.slow_disk.begun) == ((2, 2, 3), 1)
    house.slow_disk.finish_one()
    assert house.counted == (3, 3, 3)


def test_flush_ms_stops_nobody() -> None:
    house = SlowHouse(TopicConfig(flush_ms=500))
    house.append(b"a")
    house.clock.advance(0.5)
    at_once(house.logs.tick())
    at_once(house.logs.tick())
    assert (house.counted, house.log.recovery_point, house.slow_disk.busy) == ((1, 1, 1), 0, 1)
    house.append(b"b")
    house.slow_disk.finish_one()
    assert (house.counted, house.log.recovery_point) == ((2, 2, 2), 1)


def test_all_waiters_are_woken_when_a_sync_fails() -> None:
    house = SlowHouse()
    woken: list[str] = []
    house.append(b"a")
    house.log.add_waiter(0, lambda: woken.append("replicated"))
    house.log.add_sync_waiter(0, lambda: woken.append("synced"))
    house.fs.failing_fsync = True
    house.slow_disk.finish_one()
    assert (house.counted, sorted(woken)) == ((0, 0, 1), ["replicated", "synced"])
    assert house.log.failure is not None
    assert house.logs.run_record.epoch == -1, "the next process gives no word for this data"


def test_a_sync_that_was_under_way_when_the_log_was_cut_vouches_for_nothing() -> None:
    house = SlowHouse()
    house.append(b"a", leader_epoch=1)
    house.slow_disk.finish_all()
    house.log.sole_replica = False
    house.append(b"b", leader_epoch=1)
    house.append(b"c", leader_epoch=1)
    house.follower.truncate_to(1)
    house.append(b"x", leader_epoch=2)
    assert house.log.counted_end == 1
    house.slow_disk.finish_one()
    assert (house.log.counted_end, house.log.recovery_point) == (1, 1)
    house.slow_disk.finish_one()
    assert house.log.counted_end == 2


def test_what_is_left_of_a_cut_log_is_synced_too() -> None:
    house = SlowHouse()
    house.log.sole_replica = False
    for value in (b"a", b"b", b"c"):
        house.append(value, leader_epoch=1)
    house.follower.truncate_to(2)
    house.slow_disk.finish_all()
    assert house.log.counted_end == house.log.log_end_offset == 2


def test_a_log_that_begins_anew_counts_once_its_beginning_is_synced() -> None:
    house = SlowHouse()
    house.log.sole_replica = False
    house.append(b"a")
    house.follower.restart_at(40)
    house.slow_disk.finish_all()
    assert (house.log.counted_end, house.log.recovery_point) == (40, 40)


def test_a_log_that_was_deleted_during_a_sync_is_no_failed_disk() -> None:
    house = SlowHouse()
    house.append(b"a")
    house.logs.run_record.registered(7)
    house.logs.delete("orders", 0)
    house.slow_disk.finish_all()
    assert house.logs.run_record.epoch == 7


def test_old_segments_go_while_they_are_synced() -> None:
    house = SlowHouse(TopicConfig(flush_messages=1, segment_bytes=ONE, retention_ms=1_000, file_delete_delay_ms=0))
    house.slow_disk.slow = False
    for _ in range(3):
        house.append(b"v")
    house.slow_disk.slow = True
    house.append(b"v")
    house.log.sole_replica = False
    house.log.high_watermark = 4
    house.clock.advance(2)
    at_once(house.logs.tick())
    at_once(house.logs.tick())
    assert house.log.log_start_offset == 4
    house.slow_disk.finish_all()
    assert house.log.failure is None
    assert house.log.counted_end == 4


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_deleted_records_stay_deleted_though_their_segments_come_back(seed: int, synced: bool) -> None:
    house = SlowHouse(TopicConfig(segment_bytes=ONE, file_delete_delay_ms=0))
    house.slow_disk.slow = False
    for number in range(6):
        house.append(b"%d" % number)
    for _ in range(6):
        at_once(house.logs.tick())
    house.log.flush()
    house.slow_disk.slow = True
    house.log.delete_records(4)
    fsyncs = house.fs.fsyncs
    at_once(house.logs.tick())
    assert (house.log.segments[0].base_offset, house.fs.fsyncs) == (4, fsyncs), "the event loop has synced nothing"
    if synced:
        house.slow_disk.finish_all()
    house.log.delete_records(5)
    house.lose_power(seed, keeps_names=seed % 2 == 1)
    assert (house.log.log_start_offset, values_of(house.log)) == (5, [b"5"])


def test_no_clean_stop_while_it_is_not_known_how_a_sync_ends() -> None:
    house = SlowHouse()
    house.append(b"a")
    house.logs.close()
    assert not house.fs.exists(LOG_DIR / ".kafka_cleanshutdown")


def test_a_topic_that_asks_for_syncs_from_now_on_gets_them() -> None:
    house = SlowHouse(TopicConfig())
    house.append(b"a")
    assert house.counted == (1, 1, 1)
    house.log.update_config(TopicConfig(flush_messages=1))
    assert (house.log.counted_end, house.log.high_watermark) == (0, 1), "what consumers have seen stays seen"
    house.slow_disk.finish_one()
    assert house.log.counted_end == 1
    house.append(b"b")
    house.log.update_config(TopicConfig())
    assert house.counted == (2, 2, 2)


def recovery_points(house: LogHouse) -> dict[tuple[str, int], int]:
    return read_offsets(house.fs, LOG_DIR / RECOVERY_POINTS)


def test_recovery_points_are_written_beside_the_loop() -> None:
    house = SlowHouse()
    house.append(b"a")
    house.slow_disk.finish_all()
    house.clock.advance(60)
    at_once(house.logs.tick())
    assert (house.slow_disk.busy, recovery_points(house)) == (2, {}), "high watermarks too"
    house.clock.advance(60)
    at_once(house.logs.tick())
    assert house.slow_disk.busy == 2, "no more of them wait for a slow disk"
    house.slow_disk.finish_all()
    assert recovery_points(house) == {("orders", 0): 1}


def test_recovery_points_that_a_cut_has_lowered_are_not_raised_by_what_was_under_way() -> None:
    house = SlowHouse()
    house.log.sole_replica = False
    for value in (b"a", b"b", b"c"):
        house.append(value, leader_epoch=1)
        house.slow_disk.finish_all()
    house.clock.advance(60)
    at_once(house.logs.tick())
    house.follower.truncate_to(1)
    assert recovery_points(house) == {("orders", 0): 1}
    house.slow_disk.finish_all()
    assert recovery_points(house) == {("orders", 0): 1}


def test_recovery_points_that_could_not_be_written_are_written_again() -> None:
    house = SlowHouse()
    house.append(b"a")
    house.slow_disk.finish_all()
    house.clock.advance(60)
    at_once(house.logs.tick())
    house.fs.failing_fsync = True
    house.slow_disk.finish_all()
    house.fs.failing_fsync = False
    house.clock.advance(60)
    at_once(house.logs.tick())
    house.slow_disk.finish_all()
    assert recovery_points(house) == {("orders", 0): 1}
    assert house.log.failure is None


def test_a_roll_syncs_nothing_itself() -> None:
    house = SlowHouse(TopicConfig(segment_bytes=ONE))
    house.append(b"a", producer=ProducerStamp(9, 0, 0))
    before = house.fs.fsyncs
    house.append(b"b", producer=ProducerStamp(9, 0, 1))
    assert (len(house.log.segments), house.fs.fsyncs) == (2, before)
    at_once(house.logs.tick())
    house.slow_disk.finish_all()
    house.lose_power(1)
    assert house.log.log_end_offset >= 1
    assert house.append(b"a", producer=ProducerStamp(9, 0, 0)) == 0, "the producer is known"


async def test_a_thread_does_the_work_and_the_event_loop_hears_of_it() -> None:
    loop_thread, gate = threading.get_ident(), threading.Event()
    seen: list[object] = []
    with ThreadPoolExecutor(1) as threads:
        disk = ThreadedDisk(threads)
        disk.submit(lambda: seen.append(gate.wait(30) and threading.get_ident() != loop_thread), seen.append)
        disk.submit(_fail, lambda error: seen.append((type(error), threading.get_ident() == loop_thread)))
        await asyncio.sleep(0)
        assert seen == [], "the loop goes on"
        gate.set()
        await disk.settle()
    assert seen == [True, None, (OSError, True)]


def _fail() -> None:
    raise OSError("input/output error")


def test_a_metadata_log_is_flushed_before_the_call_returns() -> None:
    house = SlowHouse(TopicConfig())
    house.append(b"a")
    house.log.flush()
    assert (house.log.recovery_point, house.slow_disk.begun) == (1, 0)
    house.fs.failing_fsync = True
    house.append(b"b")
    with pytest.raises(KafkaError):
        house.log.flush()


@pytest.mark.parametrize("seed", range(8))
def test_a_flush_vouches_for_a_new_segment_whose_name_a_slow_sync_has_taken_on(seed: int) -> None:
    house = SlowHouse(TopicConfig(segment_bytes=ONE))
    house.append(b"a")
    house.log.flush()
    house.append(b"b")
    house.append(b"c")
    at_once(house.logs.tick())
    assert house.slow_disk.busy == 1, "a sealed segment is being synced, and names with it"
    house.log.flush()
    house.lose_power(seed, keeps_names=seed % 2 == 1)
    assert values_of(house.log) == [b"a", b"b", b"c"]


def test_old_segments_may_come_back_until_the_last_of_two_syncs_has_ended() -> None:
    house = SlowHouse(TopicConfig(segment_bytes=ONE, file_delete_delay_ms=0))
    for number in range(6):
        house.append(b"%d" % number)
    house.slow_disk.slow = False
    for _ in range(6):
        at_once(house.logs.tick())
    house.slow_disk.slow = True
    for start in (2, 4):
        house.log.delete_records(start)
        at_once(house.logs.tick())
    files = house.log.files
    assert (house.slow_disk.busy, files.old.durable_base) == (2, 0)
    house.slow_disk.finish_one()
    assert files.old.durable_base == 2
    house.slow_disk.finish_one()
    assert files.old.durable_base == 4
