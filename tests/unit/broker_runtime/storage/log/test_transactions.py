"""Transactions in one log: which batches and markers it accepts, the last stable offset, and what readers get."""

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.records.transactions import VerificationGuard
from broker_runtime.storage.records.validation import COORDINATORS_SEQUENCE_MIN
from kafka_bytes.batches import LOG_APPEND_TIME, ProducerStamp, checksum
from tests.support.logs.logs import LogHouse, read_all
from tests.support.logs.transactions import committed_values, end, transactional, write


@pytest.fixture
def house() -> LogHouse:
    return LogHouse()


def _code(append: object) -> ErrorCode:
    assert callable(append)
    with pytest.raises(KafkaError) as caught:
        append()
    return caught.value.code


def test_records_of_an_open_transaction_are_not_stable(house: LogHouse) -> None:
    house.append(b"plain")
    write(house.log, b"a", b"b")
    house.append(b"later")
    assert (house.log.last_stable_offset, house.log.high_watermark) == (1, 4)
    assert committed_values(house.log) == [b"plain"]
    end(house.log)
    assert house.log.last_stable_offset == house.log.high_watermark == 5
    assert committed_values(house.log) == [b"plain", b"a", b"b", b"later"]


def test_the_oldest_open_transaction_counts(house: LogHouse) -> None:
    write(house.log, b"a", producer_id=1)
    write(house.log, b"b", producer_id=2)
    write(house.log, b"c", producer_id=3)
    end(house.log, producer_id=2)
    assert house.log.last_stable_offset == 0
    end(house.log, producer_id=1, is_commit=False)
    assert house.log.last_stable_offset == 2
    assert house.log.aborted_transactions(0, 2) == [(1, 0)]
    end(house.log, producer_id=3)
    assert house.log.last_stable_offset == 6
    assert committed_values(house.log) == [b"b", b"c"]


def test_readers_of_committed_records_do_not_get_aborted_ones_wherever_they_begin(house: LogHouse) -> None:
    write(house.log, b"a", producer_id=1)
    write(house.log, b"b", producer_id=2)
    write(house.log, b"c", producer_id=1, sequence=1)
    end(house.log, producer_id=1, is_commit=False)
    write(house.log, b"d", producer_id=1, sequence=2)
    end(house.log, producer_id=1)
    end(house.log, producer_id=2)
    expected = [b"b", b"d"]
    assert committed_values(house.log) == expected
    assert committed_values(house.log, max_bytes=1) == expected
    assert committed_values(house.log, 2) == [b"d"]
    assert house.log.aborted_transactions(2, 3) == [(1, 0)]
    assert house.log.aborted_transactions(4, 7) == []


def test_an_empty_abort_has_no_entry(house: LogHouse) -> None:
    end(house.log, is_commit=False)
    assert house.log.aborted_transactions(0, 1) == []
    assert not house.log.files.has_aborted


def test_the_stable_offset_waits_until_the_marker_is_replicated(house: LogHouse) -> None:
    house.log.start_replicating(0)
    write(house.log, b"a")
    end(house.log)
    house.log.advance_high_watermark(1)
    assert house.log.last_stable_offset == 0
    house.log.advance_high_watermark(2)
    assert house.log.last_stable_offset == 2


def test_a_transaction_that_ends_later_and_began_earlier_holds_the_stable_offset(house: LogHouse) -> None:
    house.log.start_replicating(0)
    for producer_id in (1, 2, 3):
        write(house.log, b"a", producer_id=producer_id)
    for producer_id in (3, 1, 2):
        end(house.log, producer_id=producer_id)
    stable = []
    for high_watermark in range(3, 7):
        house.log.advance_high_watermark(high_watermark)
        stable.append(house.log.last_stable_offset)
    assert stable == [0, 0, 1, 6]


def test_deleted_records_move_the_stable_offset_of_an_open_transaction(house: LogHouse) -> None:
    write(house.log, b"a", b"b", b"c")
    house.log.delete_records(2)
    assert house.log.last_stable_offset == 2
    end(house.log)
    assert house.log.last_stable_offset == 4


def test_the_marker_is_a_batch_of_78_bytes_at_the_next_offset(house: LogHouse) -> None:
    write(house.log, b"a")
    result = end(house.log, coordinator_epoch=9, leader_epoch=4)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (1, 1, -1)
    header, batch = read_all(house.log)[1]
    assert (header.base_offset, header.leader_epoch, header.size, checksum(batch)) == (1, 4, 78, header.crc)
    assert house.log.latest_epoch == 4


def test_a_marker_of_a_topic_with_append_times_has_the_attribute() -> None:
    house = LogHouse(TopicConfig(message_timestamp_type="LogAppendTime"))
    assert end(house.log).log_append_time_ms == house.clock.wall_ms()
    header, batch = read_all(house.log)[0]
    assert header.attributes & LOG_APPEND_TIME
    assert checksum(batch) == header.crc


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(house: LogHouse) -> None:
    write(house.log, b"a")
    assert _code(lambda: house.append(b"x", producer=ProducerStamp(1, 0, 1))) == ErrorCode.INVALID_TXN_STATE
    end(house.log)
    assert house.append(b"x", producer=ProducerStamp(1, 0, 1)) == 2


def test_sequences_continue_after_a_marker_with_the_same_epoch(house: LogHouse) -> None:
    write(house.log, b"a", b"b")
    end(house.log)
    assert write(house.log, b"again", b"again", guard=None) == 0, "a late repetition is answered as one"
    assert _code(lambda: write(house.log, b"c", sequence=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(house.log, b"c", sequence=2) == 3


@pytest.mark.parametrize(("epoch", "version"), [(1, 0), (1, 2)])
def test_sequences_begin_anew_after_a_marker_with_a_new_epoch(house: LogHouse, epoch: int, version: int) -> None:
    write(house.log, b"a", b"b")
    end(house.log, epoch=epoch, version=version)
    assert _code(lambda: write(house.log, b"late", sequence=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert _code(lambda: write(house.log, b"c", epoch=1, sequence=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(house.log, b"c", epoch=1) == 3


def test_a_marker_of_an_unknown_producer_fences_it(house: LogHouse) -> None:
    end(house.log, epoch=5)
    assert _code(lambda: write(house.log, b"a", epoch=4)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert _code(lambda: write(house.log, b"a", epoch=5, sequence=17)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(house.log, b"a", epoch=5) == 1


def test_markers_of_old_epochs_and_of_replaced_coordinators_are_refused(house: LogHouse) -> None:
    write(house.log, b"a", epoch=3)
    assert _code(lambda: end(house.log, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert _code(lambda: end(house.log, epoch=3, version=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    end(house.log, epoch=4, version=2, coordinator_epoch=7)
    assert end(house.log, epoch=4, version=2, coordinator_epoch=7).base_offset == 2, "a repeated marker is written"
    assert _code(lambda: end(house.log, epoch=5, coordinator_epoch=6)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert house.log.log_end_offset == 3


def test_the_greatest_epoch_ends_its_own_transaction(house: LogHouse) -> None:
    write(house.log, b"a", epoch=32_767)
    assert end(house.log, epoch=32_767, version=2).base_offset == 1


def test_a_batch_that_opens_a_transaction_needs_its_guard(house: LogHouse) -> None:
    log = house.log
    assert _code(lambda: write(log, b"a", guard=None)) == ErrorCode.INVALID_TXN_STATE
    assert log.needs_verification(1, 0)
    guard = log.verification_guard(1, 0, 0, is_v2=False)
    assert log.verification_guard(1, 0, 0, is_v2=False) is guard, "requests at the same time share it"
    assert _code(lambda: write(log, b"a", guard=VerificationGuard(0, 0, 0, is_v2=False))) == ErrorCode.INVALID_TXN_STATE
    write(log, b"a", guard=guard)
    assert not log.needs_verification(1, 0)
    assert log.needs_verification(1, 1)
    assert write(log, b"b", sequence=1, guard=None) == 1


def test_a_batch_that_was_verified_before_the_marker_comes_too_late(house: LogHouse) -> None:
    log = house.log
    guard = log.verification_guard(1, 0, 0, is_v2=False)
    end(log, is_commit=False)
    assert _code(lambda: write(log, b"late", guard=guard)) == ErrorCode.INVALID_TXN_STATE
    assert log.last_stable_offset == 1


def test_the_marker_of_version_2_leaves_the_guard_of_the_next_transaction(house: LogHouse) -> None:
    log = house.log
    write(log, b"a")
    old, new = log.verification_guard(1, 0, 0, is_v2=True), log.verification_guard(1, 1, 0, is_v2=True)
    assert old is new
    end(log, epoch=1, version=2)
    assert write(log, b"b", epoch=1, guard=new) == 2


def test_an_old_epoch_is_refused_before_its_verification(house: LogHouse) -> None:
    end(house.log, epoch=5)
    code = _code(lambda: house.log.verification_guard(1, 4, 0, is_v2=False))
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_batch_with_the_lowest_sequence_comes_first(house: LogHouse) -> None:
    log = house.log
    guard = log.verification_guard(1, 0, 5, is_v2=False)
    log.verification_guard(1, 0, 3, is_v2=False)
    assert _code(lambda: write(log, b"b", sequence=5, guard=guard)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(log, b"a", b"b", sequence=3, guard=guard) == 0
    assert write(log, b"b", sequence=5, guard=guard) == 2


def test_a_producer_of_version_2_begins_with_sequence_0(house: LogHouse) -> None:
    guard = house.log.verification_guard(1, 0, 4, is_v2=True)
    assert _code(lambda: write(house.log, b"a", sequence=4, guard=guard)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    guard = house.log.verification_guard(2, 0, 4, is_v2=False)
    assert write(house.log, b"a", producer_id=2, sequence=4, guard=guard) == 0


def test_a_coordinator_writes_for_a_producer_without_its_sequence(house: LogHouse) -> None:
    log = house.log
    guard = log.verification_guard(1, 0, -1, is_v2=True)
    batch = memoryview(transactional([b"a", b"b"], 1, 0, -1))
    assert _code(lambda: log.append(batch, guard=guard)) == ErrorCode.INVALID_RECORD
    for offset in (0, 2, 4):
        result = log.append(batch, guard=guard if not offset else None, sequence_min=COORDINATORS_SEQUENCE_MIN)
        assert result.base_offset == offset
    end(log, epoch=1, version=2)
    assert len(read_all(log)) == 4
    code = _code(lambda: log.append(batch, sequence_min=COORDINATORS_SEQUENCE_MIN))
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_silent_producer_with_an_open_transaction_is_not_forgotten(house: LogHouse) -> None:
    states = house.log.producers
    write(house.log, b"a", producer_id=1)
    write(house.log, b"b", producer_id=2)
    end(house.log, producer_id=2)
    house.log.verification_guard(3, 0, 0, is_v2=False)
    for _ in states.expire(house.clock.wall_ms() + 100, 100, 1):
        pass
    assert [number for number, _ in states] == [1]
    known = states.transactions
    assert (known.open_since(1), known.open_since(2), known.first_open) == (0, None, 0)


def test_the_lag_of_the_stable_offset_is_shown_while_a_transaction_is_open(house: LogHouse) -> None:
    upkeep = house.logs.upkeep
    house.append(b"plain")
    write(house.log, b"a", b"b")
    at_once(house.logs.tick())
    assert upkeep.stable_offset_lags(10) == [(("orders", 0), 2)]
    assert upkeep.stable_offset_lags(0) == []
    end(house.log)
    assert upkeep.stable_offset_lags(10) == []
    at_once(house.logs.tick())
    assert upkeep._unstable == {}
