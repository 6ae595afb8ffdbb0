"""Cleaning a log with transactions: aborted records go, and markers go when nothing of their transaction is left."""

import pytest

from broker_runtime.config import TopicConfig
from kafka_bytes.batches import CONTROL, DELETE_HORIZON, Header
from tests.support.logs.cleaning import append_keyed, clean
from tests.support.logs.logs import LogHouse, read_all
from tests.support.logs.transactions import committed_values, end, write

RETENTION_MS = 1_000
CONFIG = TopicConfig(
    cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=80, delete_retention_ms=RETENTION_MS
)


@pytest.fixture
def house() -> LogHouse:
    return LogHouse(CONFIG)


def _cleaned(house: LogHouse) -> None:
    """Clean everything so far. A record of another key makes the log dirty again."""
    append_keyed(house, (b"dirty", b"%d" % house.log.log_end_offset))
    house.log.files.roll()
    house.log.flush()
    assert clean(house) is not None


def _headers(house: LogHouse) -> list[Header]:
    return [header for header, _ in read_all(house.log) if header.producer_id >= 0]


def _markers(house: LogHouse) -> list[Header]:
    return [header for header in _headers(house) if header.attributes & CONTROL]


def _forget_producers(house: LogHouse) -> None:
    """Let all producers be silent for so long that their newest batches need not stay."""
    for _ in house.log.producers.expire(house.clock.wall_ms() + 10, 0):
        pass


def test_records_of_an_aborted_transaction_replace_no_committed_ones(house: LogHouse) -> None:
    write(house.log, b"old", key=b"a")
    end(house.log)
    write(house.log, b"void", key=b"a", sequence=1)
    end(house.log, is_commit=False)
    _forget_producers(house)
    _cleaned(house)
    assert committed_values(house.log)[0] == b"old"
    assert not [batch for _, batch in read_all(house.log) if b"void" in batch]


def test_the_marker_of_an_aborted_transaction_stays_for_the_time_of_a_slow_reader(house: LogHouse) -> None:
    write(house.log, b"void", key=b"a")
    end(house.log, is_commit=False)
    _forget_producers(house)
    _cleaned(house)
    assert [header.attributes & DELETE_HORIZON for header in _markers(house)] == [0]
    assert house.log.aborted_transactions(0, 10) == [(1, 0)], "a reader may have met the records before they went"
    _cleaned(house)
    (marker,) = _markers(house)
    assert (marker.attributes & DELETE_HORIZON, marker.record_count) == (DELETE_HORIZON, 1)
    assert marker.base_timestamp == house.clock.wall_ms() + RETENTION_MS
    assert house.log.aborted_transactions(0, 10) == []
    house.clock.advance(RETENTION_MS / 1000)
    _cleaned(house)
    assert _markers(house) == []
    assert [name for name in house.fs.listdir(house.log.place.folder) if name.endswith(".txnindex")] == []


def test_the_marker_of_a_committed_transaction_stays_while_one_of_its_records_does(house: LogHouse) -> None:
    write(house.log, b"1", key=b"a")
    end(house.log)
    _forget_producers(house)
    for _ in range(3):
        _cleaned(house)
        house.clock.advance(RETENTION_MS)
    assert [header.attributes & DELETE_HORIZON for header in _markers(house)] == [0]
    append_keyed(house, (b"a", b"2"))
    for _ in range(3):
        _cleaned(house)
        house.clock.advance(RETENTION_MS)
    assert _markers(house) == []
    assert committed_values(house.log)[0] == b"2"


def test_a_transaction_over_several_segments_is_cleaned_whole(house: LogHouse) -> None:
    for number in range(8):
        write(house.log, b"void", b"%d" % number, sequence=2 * number)
        append_keyed(house, (b"plain", b"%d" % number))
    end(house.log, is_commit=False)
    _forget_producers(house)
    assert len(house.log.segments) > 2
    _cleaned(house)
    assert committed_values(house.log)[:1] == [b"7"]
    assert [header.attributes & CONTROL for header in _headers(house) if header.record_count] == [CONTROL]


def test_cleaning_ends_before_an_open_transaction(house: LogHouse) -> None:
    append_keyed(house, (b"a", b"1"))
    append_keyed(house, (b"a", b"2"))
    house.log.files.roll()
    write(house.log, b"3", key=b"a")
    house.log.files.roll()
    house.log.flush()
    assert clean(house) is not None
    end(house.log, is_commit=False)
    assert committed_values(house.log) == [b"2"]


def test_the_newest_batch_of_an_aborted_transaction_stays_without_records(house: LogHouse) -> None:
    write(house.log, b"void", b"void", key=b"a")
    end(house.log, is_commit=False)
    _cleaned(house)
    data, marker = _headers(house)
    assert (data.record_count, data.last_sequence, marker.record_count) == (0, 1, 1)
    for _ in range(3):
        house.clock.advance(RETENTION_MS)
        _cleaned(house)
    assert len(_markers(house)) == 1, "the empty batch belongs to the transaction"
    house.kill()
    assert house.log.last_stable_offset == house.log.high_watermark
    assert write(house.log, b"next", sequence=2) == house.log.log_end_offset - 1


def test_the_marker_that_fences_a_producer_stays(house: LogHouse) -> None:
    write(house.log, b"void", key=b"a")
    end(house.log, epoch=1, version=2, is_commit=False)
    for _ in range(4):
        _cleaned(house)
        house.clock.advance(RETENTION_MS)
    (marker,) = _markers(house)
    assert (marker.producer_epoch, marker.record_count) == (1, 0)
    for name in house.fs.listdir(house.log.place.folder):
        if name.endswith(".snapshot"):
            house.fs.unlink(house.log.place.folder / name)
    house.kill()
    assert [state.epoch for number, state in house.log.producers if number == 1] == [1]
    _forget_producers(house)
    _cleaned(house)
    assert _markers(house) == []


def test_a_marker_in_an_uncleaned_segment_keeps_its_entry(house: LogHouse) -> None:
    write(house.log, b"void", key=b"a")
    house.log.files.roll()
    end(house.log, is_commit=False)
    house.log.flush()
    _forget_producers(house)
    assert clean(house) is not None
    assert committed_values(house.log) == []
    assert house.log.aborted_transactions(0, 10) == [(1, 0)]


@pytest.mark.parametrize("stop", ["restart", "kill"])
def test_a_cleaned_log_is_the_same_after_a_restart(house: LogHouse, stop: str) -> None:
    for number in range(6):
        write(house.log, b"void-%d" % number, key=b"a", producer_id=1, sequence=number)
        write(house.log, b"kept-%d" % number, key=b"b%d" % number, producer_id=2, sequence=number)
        end(house.log, producer_id=2)
        if number % 2:
            end(house.log, producer_id=1, is_commit=False)
    _cleaned(house)
    expected = committed_values(house.log)
    getattr(house, stop)()
    assert committed_values(house.log) == expected
    # A transaction without a batch is known no longer if the start has filled the index from the batches.
    assert house.log.aborted_transactions(0, house.log.log_end_offset)[-1] == (1, 14)
