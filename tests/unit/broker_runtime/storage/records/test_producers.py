from itertools import pairwise

import pytest

from broker_runtime.config import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.records import producers
from broker_runtime.storage.records.producers import ProducerStates, StoredBatch
from kafka_bytes.batches import ProducerStamp
from tests.support.logs.logs import LogHouse, values_of


def _stamp(sequence: int, epoch: int = 0) -> ProducerStamp:
    return ProducerStamp(42, epoch, sequence)


def _refused(house: LogHouse, sequence: int, epoch: int = 0) -> ErrorCode:
    before = house.log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        house.append(b"x", producer=_stamp(sequence, epoch))
    assert house.log.log_end_offset == before
    return caught.value.code


def test_a_gap_in_the_sequence_is_refused_and_the_next_in_line_taken() -> None:
    house = LogHouse()
    house.append(b"a", b"b", producer=_stamp(0))
    assert _refused(house, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert house.append(b"c", producer=_stamp(2)) == 2


def test_each_of_the_last_five_batches_is_answered_with_its_first_offset_when_repeated() -> None:
    house = LogHouse()
    for sequence in range(6):
        house.append(b"%d" % sequence, producer=_stamp(sequence))
    assert [house.append(b"again", producer=_stamp(sequence)) for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    assert _refused(house, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values_of(house.log) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_new_epoch_begins_at_zero_and_fences_the_old() -> None:
    house = LogHouse()
    house.append(b"a", producer=_stamp(0))
    assert _refused(house, 1, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    house.append(b"b", producer=_stamp(0, epoch=1))
    assert _refused(house, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert values_of(house.log) == [b"a", b"b"]


def test_an_unknown_producer_may_begin_anywhere() -> None:
    house = LogHouse()
    assert house.append(b"a", producer=_stamp(77)) == 0


def test_sequences_wrap_around() -> None:
    house = LogHouse()
    house.append(b"a", b"b", producer=_stamp(2**31 - 2))
    assert house.append(b"c", producer=_stamp(0)) == 2


@pytest.mark.parametrize("stop", ["restart", "kill"])
def test_sequences_are_remembered_across_a_restart(stop: str) -> None:
    house = LogHouse()
    for sequence in range(3):
        house.append(b"%d" % sequence, producer=_stamp(sequence))
    getattr(house, stop)()
    assert house.append(b"again", producer=_stamp(2)) == 2
    assert _refused(house, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert house.append(b"3", producer=_stamp(3)) == 3


def test_a_snapshot_is_followed_by_the_batches_after_it() -> None:
    house = LogHouse()
    house.append(b"0", producer=_stamp(0))
    house.restart()
    for sequence in (1, 2, 3):
        house.append(b"x", producer=_stamp(sequence))
    house.kill()
    assert [house.append(b"again", producer=_stamp(sequence)) for sequence in range(4)] == [0, 1, 2, 3]


def test_a_producer_that_is_silent_for_a_day_is_forgotten() -> None:
    house = LogHouse()
    house.append(b"a", producer=_stamp(5))
    house.clock.advance(86_399)
    at_once(house.logs.tick())
    assert _refused(house, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    house.clock.advance(1)
    at_once(house.logs.tick())
    assert house.append(b"b", producer=_stamp(9)) == 1


@pytest.mark.parametrize("damage", [b"", b"\x00\x01", b"\x00" * 40])
def test_a_damaged_snapshot_is_refused(damage: bytes) -> None:
    with pytest.raises(ValueError, match="snapshot"):
        ProducerStates().decode(damage)


def test_snapshots_keep_the_last_batch_of_each_producer() -> None:
    states = ProducerStates()
    for number in range(8):
        states.record(number % 2, 3, StoredBatch(number, number, number * 10, number * 10, 99), 99)
    loaded = ProducerStates()
    loaded.decode(states.encode())
    assert len(loaded) == 2
    assert loaded.duplicate_or_check(1, 3, 7, 7) == StoredBatch(7, 7, 70, 70, 99)
    assert loaded.encode() == states.encode()


def test_a_snapshot_of_many_producers_encodes_none_of_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    states = ProducerStates()
    for number in range(1_000):
        states.record(number, 0, StoredBatch(0, 4, number, number + 4, 99), 99)
    monkeypatch.setattr(producers, "_ENTRY", None)
    content = states.encode()
    monkeypatch.undo()
    loaded = ProducerStates()
    loaded.decode(content)
    assert len(loaded) == 1_000
    assert loaded.duplicate_or_check(7, 0, 0, 4) == StoredBatch(0, 4, 7, 11, 99)


def _of_many(seen_ms: int, first: int = 0, count: int = 5_000, into: ProducerStates | None = None) -> ProducerStates:
    states = ProducerStates() if into is None else into
    for number in range(first, first + count):
        states.record(number, 0, StoredBatch(0, 0, number, number, 0), seen_ms)
    return states


def _known(states: ProducerStates) -> list[int]:
    return [producer_id for producer_id, _ in states]


def test_all_silent_producers_are_forgotten_at_once_and_in_short_steps() -> None:
    """A broker with thousands of logs checks each of them every few seconds only."""
    states = _of_many(0)
    _of_many(1, first=5_000, count=10, into=states)
    states.record(7, 0, StoredBatch(1, 1, 6_000, 6_000, 0), 1)
    sizes = [5_010, *(len(states) for _ in states.expire(10, 10)), len(states)]
    assert max(before - after for before, after in pairwise(sizes)) < 200
    assert _known(states) == [*range(5_000, 5_010), 7]
    at_once(states.expire(11, 10))
    assert len(states) == 0


def test_producers_added_during_an_expiry_are_kept() -> None:
    states = _of_many(0)
    for number, _ in enumerate(states.expire(10, 10)):
        states.record(10_000 + number, 0, StoredBatch(0, 0, 0, 0, 0), 11)
    assert _known(states)
    assert all(producer_id >= 10_000 for producer_id in _known(states))


def test_a_producer_of_a_time_when_the_clock_was_ahead_keeps_no_other_one() -> None:
    states = _of_many(1_000_000, count=3)
    _of_many(50, first=3, count=2, into=states)
    at_once(states.expire(100, 50))
    assert _known(states) == [0, 1, 2]
    at_once(states.expire(150, 50))
    assert _known(states) == []


def test_producers_of_a_snapshot_are_forgotten_in_the_order_in_which_they_were_seen() -> None:
    states = _of_many(5, count=2)
    _of_many(3, first=2, count=2, into=states)
    loaded = ProducerStates()
    loaded.decode(states.encode())
    at_once(loaded.expire(13, 10))
    assert _known(loaded) == [0, 1]


def test_one_tick_of_the_upkeep_forgets_all_silent_producers_of_a_log() -> None:
    house = LogHouse()
    _of_many(house.clock.wall_ms(), into=house.log.producers)
    house.clock.advance(BrokerConfig().producer_id_expiration_ms / 1000)
    at_once(house.logs.tick())
    assert len(house.log.producers) == 0


def test_a_producer_keeps_its_last_five_batches() -> None:
    states = ProducerStates()
    for number in range(7):
        states.record(1, 0, StoredBatch(number, number, number, number, 0), 0)
    assert states.duplicate_or_check(1, 0, 2, 2) == StoredBatch(2, 2, 2, 2, 0)
    with pytest.raises(KafkaError):
        states.duplicate_or_check(1, 0, 1, 1)


def test_a_partition_remembers_a_limited_number_of_producers_and_forgets_those_that_are_silent_longest() -> None:
    states = _of_many(0)
    states.record(7, 0, StoredBatch(1, 1, 6_000, 6_000, 0), 1)
    sizes = [5_000, *(len(states) for _ in states.expire(2, 10, 100)), len(states)]
    assert max(before - after for before, after in pairwise(sizes)) < 200
    assert _known(states) == [*range(4_901, 5_000), 7]
    assert states.duplicate_or_check(4_900, 0, 5, 5) is None, "as after its expiry it may begin with any sequence"


def test_one_tick_of_the_upkeep_forgets_the_producers_beyond_the_limit() -> None:
    house = LogHouse()
    house.logs.upkeep.configure(BrokerConfig(sluicegate_partition_producers_max=10))
    _of_many(house.clock.wall_ms(), into=house.log.producers)
    at_once(house.logs.tick())
    assert len(house.log.producers) == 10
