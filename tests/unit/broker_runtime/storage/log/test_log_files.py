"""The content of a log's files after full disks, failed syncs and appends in the middle of a sync."""

from collections.abc import Callable

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from tests.support.logs.logs import LOG_DIR, LogHouse, values_of

ONE = 70
"""Bytes of a batch of one record with a one-byte key and value."""


def test_a_full_disk_is_told_and_leaves_nothing_half_written() -> None:
    house = LogHouse()
    house.append(b"a")
    used = house.log.size
    house.fs.capacity_bytes = house.fs.used_bytes() + 30
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            house.append(b"does not fit")
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert house.log.segments[0].file.size() == used
    assert values_of(house.log) == [b"a"]
    house.fs.capacity_bytes = None
    assert house.append(b"b") == 1
    house.kill()
    assert values_of(house.log) == [b"a", b"b"]
    assert house.report.bytes_truncated == 0


def test_a_tail_that_cannot_be_cut_is_cut_before_the_next_append() -> None:
    house = LogHouse()
    house.append(b"a")
    house.fs.capacity_bytes = house.fs.used_bytes() + 30
    house.fs.failing_truncate = True
    with pytest.raises(KafkaError):
        house.append(b"does not fit")
    with pytest.raises(KafkaError):
        house.append(b"b")
    house.fs.failing_truncate = False
    house.fs.capacity_bytes = None
    assert house.append(b"b") == 1
    assert values_of(house.log) == [b"a", b"b"]
    assert house.log.segments[0].file.size() == house.log.size


@pytest.mark.parametrize("end", [LogHouse.restart, LogHouse.kill])
def test_a_tail_that_cannot_be_cut_is_cut_before_a_new_segment_begins(end: Callable[[LogHouse], object]) -> None:
    """A start would call it damage: behind it there is another segment."""
    house = LogHouse(TopicConfig(segment_ms=1000))
    house.append(b"a")
    house.fs.capacity_bytes = house.fs.used_bytes() + 30
    house.fs.failing_truncate = True
    with pytest.raises(KafkaError):
        house.append(b"does not fit")
    house.clock.advance(2)
    at_once(house.logs.tick())
    assert len(house.log.segments) == 1
    house.fs.mend()
    house.clock.advance(2)
    at_once(house.logs.tick())
    assert [segment.file.size() for segment in house.log.segments] == [ONE, 0]
    end(house)
    assert house.logs.damaged == {}
    assert house.append(b"b") == 1
    assert values_of(house.log) == [b"a", b"b"]


def test_a_roll_on_a_full_disk_is_made_later() -> None:
    house = LogHouse(TopicConfig(segment_bytes=ONE))
    house.append(b"a")
    house.fs.capacity_bytes = 0
    with pytest.raises(KafkaError) as caught:
        house.append(b"b")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(house.log.segments) == 1
    house.fs.capacity_bytes = None
    assert house.append(b"b") == 1
    assert values_of(house.log) == [b"a", b"b"]


def test_what_flush_messages_could_not_sync_does_not_count() -> None:
    house = LogHouse(TopicConfig(flush_messages=1))
    house.append(b"a")
    assert house.log.recovery_point == 1
    house.fs.failing_fsync = True
    house.append(b"b")
    assert (house.log.counted_end, house.log.failure is not None) == (1, True)
    house.fs.failing_fsync = False
    assert values_of(house.log) == [b"a"]
    with pytest.raises(KafkaError, match="restart") as caught:
        house.append(b"b")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    house.log.update_config(TopicConfig())
    assert values_of(house.log) == [b"a"], "what the kernel may have dropped never counts"
    house.lose_power(1)
    assert values_of(house.log) == [b"a"]
    assert house.append(b"b") == 1


def test_a_log_that_syncs_each_append_syncs_one_file_for_it() -> None:
    house = LogHouse(TopicConfig(flush_messages=1))
    house.append(b"a")
    before = house.fs.fsyncs
    house.append(b"b")
    assert house.fs.fsyncs == before + 1


def test_flush_ms_syncs_in_the_background() -> None:
    house = LogHouse(TopicConfig(flush_ms=500))
    house.append(b"a")
    at_once(house.logs.tick())
    assert house.log.recovery_point == 0
    house.clock.advance(0.5)
    at_once(house.logs.tick())
    assert house.log.recovery_point == 1


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 5])
def test_records_appended_during_a_sync_are_left_to_the_next_one(moment: int) -> None:
    """A controller syncs in a thread, and the event loop continues."""
    house = LogHouse()
    house.append(b"a")
    calls: list[None] = []

    def append_and_roll() -> None:
        calls.append(None)
        if len(calls) == moment:
            house.append(b"b")
            house.log.files.roll()
            house.append(b"c")

    house.fs.before_change = append_and_roll
    house.log.flush()
    assert len(calls) > moment
    assert house.log.recovery_point == 1
    house.log.flush()
    assert house.log.recovery_point == 3
    house.lose_power(moment)
    assert values_of(house.log) == [b"a", b"b", b"c"]


def test_files_of_old_segments_go_although_one_could_not_be_removed_at_once() -> None:
    house = LogHouse(TopicConfig(segment_bytes=ONE, retention_ms=1000, file_delete_delay_ms=0))
    for _ in range(3):
        house.append(b"v")
    house.clock.advance(2)
    failed: list[None] = []

    def renamed() -> list[str]:
        return [name for name in house.fs.listdir(LOG_DIR / "orders-0") if name.endswith(".deleted")]

    def fail_at_the_second() -> None:
        if house.log.segments[0].base_offset == 3 and len(renamed()) == 8 and not failed:
            failed.append(None)
            raise OSError("input/output error")

    house.fs.before_change = fail_at_the_second
    at_once(house.logs.tick())
    assert renamed()
    # They are kept until the next start would not miss them.
    house.clock.advance(61)
    for _ in range(3):
        at_once(house.logs.tick())
    assert failed
    assert not renamed()
