"""Records by time, against a scan of every record, and the bytes of a log that are read for it."""

import random

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.time_search import FoundRecord, Search, Step, first_since, newest
from broker_runtime.storage.records.batch import iter_times
from broker_runtime.storage.records.compression import unpack
from kafka_bytes.batches import COMPRESSION_MASK, HEADER_BYTES
from tests.support.logs.logs import LogHouse, read_all
from tests.support.logs.packed_batches import timed, with_body
from tests.support.logs.time_searches import run_through

LIMIT = 1 << 20
CODECS = [0, 1, 2, 3, 4]


def _since(log: Log, timestamp: int) -> FoundRecord | None:
    return run_through(first_since(log, timestamp, LIMIT))


def _newest(log: Log) -> FoundRecord | None:
    return run_through(newest(log, LIMIT))


def _append(house: LogHouse, *timestamps: int, codec: int = 0, epoch: int = 0) -> None:
    house.log.append(memoryview(timed(timestamps, codec=codec)), leader_epoch=epoch)


def _every_record(log: Log) -> list[FoundRecord]:
    found = []
    for header, batch in read_all(log):
        codec = header.attributes & COMPRESSION_MASK
        body = unpack(codec, batch[HEADER_BYTES:], LIMIT) if codec else batch[HEADER_BYTES:]
        found += [FoundRecord(offset, at_ms, header.leader_epoch) for offset, at_ms in iter_times(header, body)]
    return [record for record in found if record.offset >= log.log_start_offset]


@pytest.mark.parametrize("codec", CODECS)
def test_the_very_record_is_found_inside_a_batch(codec: int) -> None:
    house = LogHouse()
    _append(house, 1000, 1500, 1200, codec=codec)
    _append(house, 2000, 9000, 2500, 9000, codec=codec, epoch=3)
    _append(house, 3000, 3100, codec=codec, epoch=4)
    assert _since(house.log, 0) == (0, 1000, 0)
    assert _since(house.log, 1001) == (1, 1500, 0)
    assert _since(house.log, 1501) == (3, 2000, 3)
    assert _since(house.log, 2001) == (4, 9000, 3)
    assert _since(house.log, 9001) is None
    assert _newest(house.log) == (4, 9000, 3), "the first of several"


def test_the_newest_record_may_lie_in_the_deleted_part_of_a_batch_that_is_not_all_deleted() -> None:
    house = LogHouse()
    _append(house, 9000, 1000)
    _append(house, 2000, 3000)
    house.log.delete_records(1)
    assert _newest(house.log) == (3, 3000, 0)
    house.log.delete_records(3)
    assert _newest(house.log) == (3, 3000, 0)


@pytest.mark.parametrize("seed", range(12))
def test_any_time_in_any_log_is_found_as_a_look_at_every_record_finds_it(seed: int) -> None:
    chance = random.Random(seed)
    house = LogHouse(TopicConfig(segment_bytes=chance.choice([900, 4000, 1 << 20]), index_interval_bytes=300))
    for _ in range(120):
        around = chance.choice([1000, 1000, 5000, chance.randrange(10_000)])
        times = [max(around + chance.randrange(-40, 40), 0) for _ in range(chance.randint(1, 5))]
        _append(house, *times, codec=chance.choice(CODECS), epoch=chance.randrange(2))
        if chance.random() < 0.03:
            chance.choice([house.kill, house.restart])()
    for start in (0, house.log.log_end_offset // 3, house.log.log_end_offset - 2):
        house.log.delete_records(start)
        records = _every_record(house.log)
        top = max(record.timestamp for record in records)
        assert _newest(house.log) == next(record for record in records if record.timestamp == top)
        for timestamp in {chance.randrange(10_000) for _ in range(40)} | {record.timestamp for record in records}:
            wanted = next((record for record in records if record.timestamp >= timestamp), None)
            assert _since(house.log, timestamp) == wanted


def test_an_empty_log_has_no_record_of_any_time() -> None:
    assert _newest(LogHouse().log) is None
    assert _since(LogHouse().log, 0) is None


class _Counting:
    """A file that counts the bytes read."""

    def __init__(self, file: object) -> None:
        self._file = file
        self.bytes_read = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def pread(self, size: int, offset: int) -> bytes:
        data: bytes = self._file.pread(size, offset)  # type: ignore[attr-defined]
        self.bytes_read += len(data)
        return data


@pytest.mark.parametrize("times", [lambda n: n, lambda n: 5_000 - n, lambda _: 7, lambda n: 9_000 if n == 0 else n])
def test_the_indexes_bound_what_is_read(times: object) -> None:
    assert callable(times)
    house = LogHouse(TopicConfig(index_interval_bytes=1000))
    stamps = [times(number) for number in range(2_000)] + [9_500]
    for timestamp in stamps:
        _append(house, timestamp)
    segment = house.log.segments[0]
    for timestamp in (0, 1, 2_000, 4_000, 6_000, 9_200, 9_500):
        counting = segment.file = _Counting(segment.file)  # type: ignore[assignment]
        found = _since(house.log, timestamp)
        assert found is not None
        assert found.offset == next(number for number, at_ms in enumerate(stamps) if at_ms >= timestamp)
        # One read of 64 KiB to find the batch, and a few to check the index entries.
        assert counting.bytes_read <= 80_000, f"of {segment.size}"
        assert _newest(house.log) == (2_000, 9_500, 0)


@pytest.mark.parametrize(("codec", "steps"), [(0, 0), (4, 1)])
def test_a_small_batch_is_searched_at_once_and_a_compressed_one_in_a_step(codec: int, steps: int) -> None:
    house = LogHouse()
    for timestamp in range(1000, 1400, 2):
        _append(house, timestamp, timestamp + 1, codec=codec)
    search = first_since(house.log, 1201, LIMIT)
    assert len(_steps(search)) == steps
    assert len(_steps(newest(house.log, LIMIT))) == steps


def _steps(search: Search) -> list[Step]:
    steps: list[Step] = []
    try:
        step = next(search)
        while True:
            steps.append(step)
            step = search.send(step())
    except StopIteration:
        return steps


def test_a_batch_that_unpacks_to_too_much_is_not_unpacked() -> None:
    house = LogHouse()
    house.log.append(memoryview(timed([1000, 2000], bytes(5_000), codec=4)))
    with pytest.raises(KafkaError) as caught:
        run_through(first_since(house.log, 1500, 4_000))
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_cannot_be_decompressed_is_reported() -> None:
    house = LogHouse()
    house.log.append(memoryview(with_body(1, timed([1000, 2000]), b"\x1f\x8bnothing of the kind")))
    with pytest.raises(KafkaError) as caught:
        _since(house.log, 1500)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_header_that_promises_too_much_hides_no_later_record() -> None:
    house = LogHouse()
    lying = bytearray(timed([1000, 1001]))
    lying[35:43] = (8_000).to_bytes(8, "big")
    house.log.append(memoryview(with_body(0, bytes(lying), bytes(lying[HEADER_BYTES:]))))
    _append(house, 1500, 5000)
    assert _since(house.log, 1200) == (2, 1500, 0)
    assert _since(house.log, 6000) is None
