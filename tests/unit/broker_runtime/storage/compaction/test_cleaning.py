"""The content of a compacted log, and the view of it by readers, followers and the next start."""

import pytest

from broker_runtime.config import LONG_MAX, TopicConfig
from broker_runtime.coordination.replay import replay
from broker_runtime.errors import KafkaError
from broker_runtime.storage.records.batch import Record, iter_records
from broker_runtime.storage.segment import batch_writer
from kafka_bytes.batches import (
    CRC,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    ProducerStamp,
    checksum,
    encode_batch,
    parse_header,
)
from tests.support.logs.cleaning import append_keyed, clean
from tests.support.logs.logs import LogHouse, read_all

CONFIG = TopicConfig(cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=80, delete_retention_ms=1000)


def _house(config: TopicConfig = CONFIG) -> LogHouse:
    return LogHouse(config)


def _seal(house: LogHouse) -> None:
    """Make all records so far cleanable."""
    house.log.files.roll()
    house.log.flush()


def _records(house: LogHouse) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    for header, batch in read_all(house.log, 300):
        assert checksum(batch) == header.crc
        found += [(record.offset, record.key, record.value) for record in iter_records(batch)]
    return found


def test_each_key_keeps_its_last_record_at_its_offset() -> None:
    house = _house()
    for number in range(40):
        append_keyed(house, (b"a", b"%d" % number), (b"b%d" % (number % 3), b"x"))
    _seal(house)
    append_keyed(house, (b"a", b"last"))
    before = house.log.size
    cleaning = clean(house)
    assert cleaning is not None
    assert _records(house) == [
        (75, b"b1", b"x"),
        (77, b"b2", b"x"),
        (78, b"a", b"39"),
        (79, b"b0", b"x"),
        (80, b"a", b"last"),
    ]
    assert house.log.size < before / 4
    assert house.log.first_dirty_offset == 80
    for restarted in (house.restart, house.kill):
        restarted()
        assert house.log.first_dirty_offset == 80
        assert len(_records(house)) == 5


def test_a_tombstone_stays_until_its_horizon() -> None:
    house = _house()
    append_keyed(house, (b"a", b"1"), (b"b", b"1"))
    append_keyed(house, (b"a", None), (b"c", b"1"))
    _seal(house)
    clean(house)
    ((_, first), (header, _)) = [(h, b) for h, b in read_all(house.log)]
    assert first is not None
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == house.clock.wall_ms() + 1000
    assert _records(house) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    house.clock.advance(2)
    append_keyed(house, (b"d", b"1"))
    _seal(house)
    clean(house)
    assert _records(house) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]


def test_a_tombstone_may_stay_for_ever() -> None:
    house = _house(TopicConfig(cleanup_policy=("compact",), delete_retention_ms=LONG_MAX))
    at = house.clock.wall_ms()
    for _ in range(2):
        append_keyed(house, (b"a", None))
        _seal(house)
        clean(house)
    assert _records(house) == [(1, b"a", None)]
    ((header, batch),) = read_all(house.log)
    assert (header.base_timestamp, header.max_timestamp) == (LONG_MAX, at)
    assert [record.timestamp for record in iter_records(batch)] == [at]


@pytest.mark.parametrize("value", [b"1", None])
def test_a_batch_whose_times_are_more_than_can_be_said_is_cleaned(value: bytes | None) -> None:
    """Produced with a header that hides this: records' times are not checked then."""
    house = _house()
    batch = bytearray(encode_batch([(b"k", value), (b"j", b"2")], 0))
    batch[HEADER_BYTES + 2] = 2
    batch[:HEADER_BYTES] = HEADER.pack(*parse_header(batch)._replace(base_timestamp=LONG_MAX, max_timestamp=5))
    CRC.pack_into(batch, CRC_FROM - CRC.size, checksum(batch))
    house.log.append(memoryview(batch))
    append_keyed(house, (b"j", b"3"))
    _seal(house)
    clean(house)
    assert _records(house) == [(0, b"k", value), (2, b"j", b"3")]


def test_a_segment_that_would_grow_beyond_the_largest_cannot_be_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of many tombstones take more space once they count from a delete horizon."""
    house = _house()
    append_keyed(house, *((b"%d" % number, None) for number in range(300)))
    _seal(house)
    monkeypatch.setattr(batch_writer, "SEGMENT_BYTES_MAX", house.log.segments[0].size)
    with pytest.raises(KafkaError, match="larger than a segment may be"):
        clean(house)
    assert len(_records(house)) == 300


def test_times_stay_behind_a_delete_horizon() -> None:
    house = _house()
    at = house.clock.wall_ms()
    append_keyed(house, (b"a", None))
    _seal(house)
    clean(house)
    ((header, batch),) = read_all(house.log)
    assert [record.timestamp for record in iter_records(batch)] == [at]
    assert header.max_timestamp == at


def test_the_sequence_of_an_idempotent_producer_survives_its_records() -> None:
    house = _house()
    append_keyed(house, (b"a", b"1"), (b"a", b"2"), producer=ProducerStamp(7, 0, 0))
    append_keyed(house, (b"a", b"3"))
    _seal(house)
    clean(house)
    for path in house.fs.listdir(house.log.place.folder):
        if path.endswith(".snapshot"):
            house.fs.unlink(house.log.place.folder / path)
    house.kill()
    assert _records(house) == [(2, b"a", b"3")]
    assert append_keyed(house, (b"a", b"1"), (b"a", b"2"), producer=ProducerStamp(7, 0, 0)) == 0
    assert append_keyed(house, (b"a", b"4"), producer=ProducerStamp(7, 0, 2)) == 3


def test_an_empty_batch_is_removed_once_a_later_one_has_the_same_information() -> None:
    """The same about the producer, or that the segment is complete."""
    house = _house(TopicConfig(cleanup_policy=("compact",)))
    sizes = []
    for number in range(5):
        append_keyed(house, (b"a", b"1"), producer=ProducerStamp(7, 0, 2 * number))
        append_keyed(house, (b"a", b"2"), producer=ProducerStamp(7, 0, 2 * number + 1))
        append_keyed(house, (b"a", b"3"))
        _seal(house)
        clean(house)
        sizes.append(house.log.size)
    assert sizes == [sizes[0]] * 5
    assert _records(house) == [(14, b"a", b"3")]


async def test_a_coordinator_loads_its_state_over_gaps_and_batches_without_records() -> None:
    house = _house()
    for number in range(40):
        append_keyed(house, (b"a", b"%d" % number), (b"b%d" % (number % 3), b"x"), producer=ProducerStamp(number, 0, 0))
    _seal(house)
    append_keyed(house, (b"a", b"last"))
    clean(house)
    for start in (0, 33, 79, 81):
        found: list[Record] = []
        await replay(house.log, start, house.log.log_end_offset, found.append)
        assert [record.offset for record in found] == [offset for offset, _, _ in _records(house) if offset >= start]
