import struct

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.time_search import first_since, newest
from kafka_bytes.batches import LOG_APPEND_TIME, checksum, encode_batch
from tests.support.logs.logs import LogHouse, read_all, values_of
from tests.support.logs.packed_batches import packed
from tests.support.logs.time_searches import run_through


def _read(house: LogHouse, offset: int, max_bytes: int, *, min_one: bool = True, up_to: int | None = None) -> list[int]:
    bound = house.log.high_watermark if up_to is None else up_to
    region = house.log.read(offset, max_bytes, min_one=min_one, up_to=bound)
    data = b"" if region is None else region.read()
    offsets = []
    while data:
        base, length = struct.unpack_from(">qi", data)
        offsets.append(base)
        data = data[length + 12 :]
    return offsets


def test_batches_are_stored_as_they_came_but_for_offset_and_epoch() -> None:
    house = LogHouse()
    batch = encode_batch([(b"k", b"a"), (None, None)], 5)
    house.append(b"first")
    result = house.log.append(memoryview(batch), leader_epoch=3)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (1, 2, -1)
    header, stored = read_all(house.log)[1]
    assert stored[16:] == batch[16:]
    assert (header.base_offset, header.leader_epoch) == (1, 3)


def test_log_append_time_is_the_brokers_and_the_checksum_stays_right() -> None:
    house = LogHouse(TopicConfig(message_timestamp_type="LogAppendTime"))
    now_ms = house.clock.wall_ms()
    result = house.log.append(memoryview(encode_batch([(None, b"v")], 5)))
    assert result.log_append_time_ms == now_ms
    header, stored = read_all(house.log)[0]
    assert (header.attributes, header.max_timestamp, header.base_timestamp) == (LOG_APPEND_TIME, now_ms, 5)
    assert checksum(stored) == header.crc
    assert run_through(first_since(house.log, now_ms, 1 << 20)) == (0, now_ms, 0)
    assert run_through(newest(house.log, 1 << 20)) == (0, now_ms, 0)


def test_read_gives_whole_batches_within_the_limit() -> None:
    house = LogHouse()
    for _ in range(10):
        house.append(b"v")
    size = house.log.size // 10
    assert _read(house, 0, 3 * size) == [0, 1, 2]
    assert _read(house, 4, 3 * size + size - 1) == [4, 5, 6]
    assert _read(house, 8, 1 << 20) == [8, 9]
    assert _read(house, 0, 1 << 20, up_to=4) == [0, 1, 2, 3]
    assert _read(house, 0, 2 * size, up_to=4) == [0, 1]
    assert _read(house, 4, 1 << 20, up_to=4) == []
    assert _read(house, 0, 1) == [0]
    assert _read(house, 0, 1, min_one=False) == []
    assert _read(house, 10, 1 << 20) == []


def test_reading_inside_a_batch_gives_that_batch() -> None:
    house = LogHouse()
    house.append(b"a", b"b", b"c")
    house.append(b"d", b"e")
    assert _read(house, 2, 1 << 20) == [0, 3]
    assert _read(house, 4, 1 << 20) == [3]
    assert _read(house, 0, 1 << 20, up_to=4) == [0]


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_outside_the_log_is_refused(offset: int) -> None:
    house = LogHouse()
    house.append(b"a", b"b", b"c")
    with pytest.raises(KafkaError) as caught:
        house.log.read(offset, 100, min_one=True, up_to=3)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("page", [1, 100, 1000, 5000, 1 << 20])
def test_paging_through_many_segments_finds_every_batch_once(page: int) -> None:
    house = LogHouse(TopicConfig(segment_bytes=3000, index_interval_bytes=200))
    for number in range(300):
        house.append(b"%03d" % number, *([b"y"] * (number % 4)))
    assert len(house.log.segments) > 8
    bases = [header.base_offset for header, _ in read_all(house.log, page)]
    assert len(bases) == 300
    assert bases == sorted(set(bases))
    for offset in range(house.log.log_end_offset):
        first = _read(house, offset, 1)[0]
        assert first == max(base for base in bases if base <= offset)


def test_a_log_rolls_by_size_time_and_index() -> None:
    by_time = LogHouse(TopicConfig(segment_ms=1000))
    by_time.append(b"a")
    by_time.clock.advance(1)
    by_time.append(b"b")
    assert len(by_time.log.segments) == 1
    by_time.clock.advance(0.001)
    by_time.append(b"c")
    assert [segment.base_offset for segment in by_time.log.segments] == [0, 2]
    by_index = LogHouse(TopicConfig(segment_index_bytes=24, index_interval_bytes=0))
    for _ in range(8):
        by_index.append(b"v")
    assert len(by_index.log.segments) > 1


def test_deleted_records_are_gone_for_readers_and_after_restarts() -> None:
    house = LogHouse(TopicConfig(segment_bytes=500))
    for number in range(20):
        house.append(b"%02d" % number)
    assert house.log.delete_records(9) == 9
    assert house.log.delete_records(4) == 9
    with pytest.raises(KafkaError) as caught:
        house.log.delete_records(21)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    house.kill()
    assert house.log.log_start_offset == 9
    at_once(house.logs.tick())
    assert house.log.segments[0].base_offset > 0
    house.restart()
    assert house.log.log_start_offset == 9
    assert values_of(house.log) == [b"%02d" % number for number in range(9, 20)]


def test_deleting_everything_leaves_an_empty_log_at_its_end() -> None:
    house = LogHouse()
    house.append(b"a", b"b")
    house.log.delete_records(2)
    house.restart()
    assert (house.log.log_start_offset, house.log.log_end_offset) == (2, 2)
    assert house.append(b"c") == 2


def test_a_waiter_hears_of_the_end_of_the_log() -> None:
    house = LogHouse()
    calls: list[str] = []
    house.log.add_waiter(0, lambda: calls.append("end"))
    house.logs.delete("orders", 0)
    assert calls == ["end"]
    assert house.logs.get("orders", 0) is None


def test_replication_moves_the_high_watermark_itself() -> None:
    house = LogHouse()
    house.log.sole_replica = False
    calls: list[str] = []
    house.log.add_waiter(0, lambda: calls.append("seen"))
    house.append(b"a")
    assert (house.log.log_end_offset, house.log.high_watermark, calls) == (1, 0, [])
    house.log.advance_high_watermark(5)
    assert (house.log.high_watermark, calls) == (1, ["seen"])


def test_compressed_batches_pass_through_untouched() -> None:
    house = LogHouse(TopicConfig(segment_bytes=400))
    stored = []
    for number, codec in enumerate([1, 2, 3, 4] * 3):
        batch = packed(codec, encode_batch([(None, b"a"), (None, b"b")], 1000 * number))
        house.log.append(memoryview(batch))
        stored.append(batch[16:])
    house.kill()
    assert [batch[16:] for _, batch in read_all(house.log)] == stored
