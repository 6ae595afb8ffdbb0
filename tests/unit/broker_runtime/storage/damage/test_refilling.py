"""Indexes of aborted transactions that are damaged while a broker runs, and markers that are mended."""

import asyncio

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.damage.mending import MissingBatches, Supplied, accept_losses, mend
from broker_runtime.storage.records.batch import iter_batches
from tests.support.logs.logs import LogHouse
from tests.support.logs.transactions import committed_values, end, write

CONFIG = TopicConfig(segment_bytes=400, index_interval_bytes=80)


def _fill(house: LogHouse) -> None:
    """Abort and commit transactions over several segments, and leave one open at the end."""
    for number in range(8):
        write(house.log, b"void-%d" % number, producer_id=1, sequence=number)
        write(house.log, b"kept-%d" % number, producer_id=2, sequence=number)
        end(house.log, producer_id=2)
        if number % 3 == 2:
            end(house.log, producer_id=1, is_commit=False)
    write(house.log, b"open", producer_id=3)


def _marker_segments(house: LogHouse) -> list[int]:
    return [number for number, segment in enumerate(house.log.segments[:-1]) if segment.indexes.aborted is not None]


def test_a_damaged_index_is_filled_from_the_batches_while_the_log_is_in_use() -> None:
    house = LogHouse(CONFIG)
    _fill(house)
    expected = committed_values(house.log)
    for number in _marker_segments(house):
        index = house.log.segments[number].indexes.aborted
        assert index is not None
        house.log.files.release_idle()
        index._data = None
        house.fs.flip(index.path, 9, 0x10)
        with pytest.raises(KafkaError) as caught:
            house.log.aborted_transactions(0, house.log.log_end_offset)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert committed_values(house.log) == expected, "the check in a thread is over at once here"
    house.restart()
    assert committed_values(house.log) == expected


def _twins() -> tuple[LogHouse, LogHouse]:
    houses = LogHouse(CONFIG), LogHouse(CONFIG)
    for house in houses:
        _fill(house)
        house.log.flush()
        house.logs.note_recovery_points()
    return houses


def _mend(house: LogHouse, twin: LogHouse) -> None:
    async def supply(wanted: MissingBatches) -> Supplied:
        region = twin.log.read(wanted.offset, 1000, min_one=True, up_to=wanted.next_offset)
        assert region is not None
        last = list(iter_batches(region.read()))[-1][0].last_offset
        return Supplied(region.read(), last + 1, may_have_gaps=False)

    async def all_of_it() -> None:
        while damaged := [segment for segment in house.log.segments if segment.damage]:
            await mend(house.log, damaged[0], supply)

    asyncio.run(all_of_it())


@pytest.mark.parametrize("offset", range(20))
def test_a_batch_that_was_damaged_at_a_start_counts_again_once_it_is_mended(offset: int) -> None:
    house, twin = _twins()
    expected, stable = committed_values(twin.log), twin.log.last_stable_offset
    segment = next(each for each in house.log.segments if each.base_offset <= offset < each.next_offset)
    position = segment.position_of(offset)
    assert position is not None
    house.logs.close()
    for name in house.fs.listdir(house.log.place.folder):
        if name.endswith((".snapshot", ".index")):
            house.fs.unlink(house.log.place.folder / name)
    house.fs.flip(segment.path, position + 16, 0x40)
    house.kill()
    assert house.log.damage
    _mend(house, twin)
    assert house.log.damage == []
    assert house.log.last_stable_offset == stable
    assert committed_values(house.log) == expected
    house.restart()
    assert (house.log.last_stable_offset, committed_values(house.log)) == (stable, expected)


def test_a_mended_segment_without_transactions_has_no_index() -> None:
    houses = LogHouse(CONFIG), LogHouse(CONFIG)
    for house in houses:
        for _ in range(20):
            house.append(b"value")
        house.log.flush()
    house, twin = houses
    segment = house.log.segments[0]
    house.fs.flip(segment.path, 16, 0x40)
    segment.damage = ()
    house.log.suspect(0)
    assert house.log.damage
    segments = len(house.log.segments)
    _mend(house, twin)
    assert len(house.log.segments) == segments
    assert [name for name in house.fs.listdir(house.log.place.folder) if name.endswith(".txnindex")] == []


def test_a_marker_whose_loss_is_accepted_ends_nothing() -> None:
    house, _ = _twins()
    marker = next(number for number in _marker_segments(house))
    segment = house.log.segments[marker]
    index = segment.indexes.aborted
    assert index is not None
    lost = next(iter(index)).last_offset
    position = segment.position_of(lost)
    assert position is not None
    house.logs.close()
    for name in house.fs.listdir(house.log.place.folder):
        if name.endswith((".snapshot", ".index")):
            house.fs.unlink(house.log.place.folder / name)
    house.fs.flip(segment.path, position + 16, 0x40)
    house.kill()
    accept_losses(house.log)
    seen = committed_values(house.log)
    assert all(value is None or value.startswith(b"kept") for value in seen)
