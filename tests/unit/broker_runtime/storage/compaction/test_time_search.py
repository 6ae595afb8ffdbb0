"""Records by time in a cleaned log: only the remaining records exist."""

import random

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.storage.log.time_search import first_since, newest
from kafka_bytes.batches import ProducerStamp, encode_batch
from tests.support.logs.cleaning import clean, records_of
from tests.support.logs.logs import LogHouse
from tests.support.logs.time_searches import run_through

LIMIT = 1 << 20


def _cleaned(kind: str, seed: int) -> LogHouse:
    rng = random.Random(seed)
    house = LogHouse(
        TopicConfig(
            cleanup_policy=("compact",), segment_bytes=600, index_interval_bytes=80, message_timestamp_type=kind
        )
    )
    at = house.clock.wall_ms()
    for number in range(60):
        house.clock.advance(1)
        # The newest batches are those that are removed: each producer's last one stays without records.
        records = [(b"%d" % rng.randrange(6), b"v") for _ in range(rng.randint(1, 3))]
        time = at + rng.randrange(100_000) + (200_000 if number < 20 else 0)
        stamp = ProducerStamp(number, 0, 0)
        house.log.append(memoryview(encode_batch(records, time, stamp)))
    house.log.files.roll()
    house.log.flush()
    clean(house)
    return house


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("seed", range(8))
def test_look_ups_find_what_is_left(kind: str, seed: int) -> None:
    house = _cleaned(kind, seed)
    for _ in range(2):
        left = records_of(house.log)
        times = sorted({record.timestamp for record in left})
        for asked in (0, *times, *(time + 1 for time in times)):
            found = run_through(first_since(house.log, asked, LIMIT))
            expected = next((record for record in left if record.timestamp >= asked), None)
            assert (found and found.offset) == (expected and expected.offset)
        best = run_through(newest(house.log, LIMIT))
        assert best is not None
        assert (-best.timestamp, best.offset) == min((-record.timestamp, record.offset) for record in left)
        house.kill()


def test_a_search_continues_after_its_segments_were_swapped() -> None:
    house = LogHouse(TopicConfig(cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=80))
    for number in range(40):
        house.log.append(memoryview(encode_batch([(b"a", b"%d" % number)] * 3, number)))
    house.log.files.roll()
    house.log.flush()
    house.log.append(memoryview(encode_batch([(b"end", b"")], 1000)))
    search = newest(house.log, LIMIT)
    ahead = first_since(house.log, 1000, LIMIT)
    clean(house)
    for looked in (search, ahead):
        found = run_through(looked)
        assert found is not None
        assert found.offset == 120
