"""A follower's appends from its leader, its refusals and notifications, and high watermarks over restarts."""

from collections.abc import Callable
from struct import pack_into

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import HIGH_WATERMARKS
from broker_runtime.storage.log.swap import GAPS_FILE
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import ProducerStamp, empty_batch, parse_header
from tests.support.logs.logs import LOG_DIR, LogHouse
from tests.support.logs.replica_model import ModelBatch, stored

FIRST = ModelBatch(0, 3, (b"a", b"b"), ProducerStamp(9, 0, 0))
SECOND = ModelBatch(2, 3, (b"c",), ProducerStamp(9, 0, 2))
THIRD = ModelBatch(3, 5, (b"d", b"e"), ProducerStamp(9, 0, 3))


def _bytes(*batches: ModelBatch) -> bytearray:
    return bytearray().join(batch.encoded(1000) for batch in batches)


def _follower(config: TopicConfig | None = None) -> LogHouse:
    house = LogHouse(config)
    house.log.sole_replica = False
    return house


def test_offsets_and_epochs_stay_the_leaders() -> None:
    house = _follower()
    assert house.follower.append(memoryview(_bytes(FIRST, SECOND, THIRD))) == 5
    assert stored(house.log) == [FIRST, SECOND, THIRD]
    assert house.log.latest_epoch == 5
    assert house.log.end_offset_for_epoch(4) == (3, 3)
    assert house.log.high_watermark == 0


def test_a_follower_that_becomes_the_leader_knows_the_producers() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, SECOND, THIRD)))
    assert house.append(b"d", b"e", producer=ProducerStamp(9, 0, 3), leader_epoch=6) == 3
    with pytest.raises(KafkaError) as caught:
        house.append(b"g", producer=ProducerStamp(9, 0, 6), leader_epoch=6)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_one_fetch_are_one_write() -> None:
    house = _follower()
    writes: list[int] = []
    house.fs.before_change = lambda: writes.append(house.log.size)
    later = ModelBatch(3, 3, (b"d",))
    house.follower.append(memoryview(_bytes(FIRST, SECOND, later)))
    epoch_file_and_batches = len(writes)
    writes.clear()
    more = [ModelBatch(4 + number, 3, (b"x",)) for number in range(20)]
    house.follower.append(memoryview(_bytes(*more)))
    assert len(writes) == 1 < epoch_file_and_batches
    assert house.log.log_end_offset == 24


@pytest.mark.parametrize("cut", [1, 30, len(_bytes(THIRD)) - 1])
def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch(cut: int) -> None:
    house = _follower()
    sent = _bytes(FIRST, SECOND, THIRD)
    assert house.follower.append(memoryview(sent)[: len(sent) - cut]) == 3
    assert house.follower.append(memoryview(_bytes(THIRD))) == 5


def _checksum_wrong(batch: bytearray) -> None:
    batch[-1] ^= 1


def _old_format(batch: bytearray) -> None:
    batch[16] = 1


def _no_length(batch: bytearray) -> None:
    pack_into(">i", batch, 8, 3)


def _an_offset_that_the_next_batch_takes_back(batch: bytearray) -> None:
    pack_into(">q", batch, 0, 7)


def _an_overlap(batch: bytearray) -> None:
    pack_into(">q", batch, 0, 1)


def _an_older_epoch(batch: bytearray) -> None:
    pack_into(">i", batch, 12, 2)


def test_offsets_that_the_leader_leaves_out_are_left_out_here_and_after_a_crash() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, THIRD)))
    assert stored(house.log) == [FIRST, THIRD]
    assert house.log.end_offset_for_epoch(3) == (3, 3)
    house.kill()
    assert stored(house.log) == [FIRST, THIRD]
    house.restart()
    assert stored(house.log) == [FIRST, THIRD]
    house.follower.truncate_to(3)
    assert (house.log.log_end_offset, stored(house.log)) == (2, [FIRST])


def test_a_gap_in_a_log_that_has_none_is_damage() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, THIRD)))
    house.fs.lose(house.log.place.folder / GAPS_FILE)
    house.kill()
    assert stored(house.log) == [FIRST]


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_checksum_wrong, ErrorCode.CORRUPT_MESSAGE),
        (_old_format, ErrorCode.CORRUPT_MESSAGE),
        (_no_length, ErrorCode.CORRUPT_MESSAGE),
        (_an_offset_that_the_next_batch_takes_back, ErrorCode.OFFSET_OUT_OF_RANGE),
        (_an_overlap, ErrorCode.OFFSET_OUT_OF_RANGE),
        (_an_older_epoch, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_bad_batch_and_what_follows_it_is_refused(damage: Callable[[bytearray], None], code: ErrorCode) -> None:
    house = _follower()
    bad = _bytes(SECOND)
    damage(bad)
    with pytest.raises(KafkaError) as caught:
        house.follower.append(memoryview(_bytes(FIRST) + bad + _bytes(THIRD)))
    assert caught.value.code == code
    assert stored(house.log) == [FIRST]
    assert house.follower.append(memoryview(_bytes(SECOND, THIRD))) == 5


def test_an_epoch_whose_batches_could_not_be_written_is_unknown() -> None:
    """Otherwise batches of the epoch that really follows there would be refused for ever."""
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST)))
    used = house.fs.used_bytes()
    big = ModelBatch(2, 7, (b"x" * 500,))
    house.fs.capacity_bytes = used + 200
    with pytest.raises(KafkaError) as caught:
        house.follower.append(memoryview(_bytes(big)))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    house.fs.capacity_bytes = None
    assert house.log.latest_epoch == 3
    house.follower.append(memoryview(_bytes(SECOND, ModelBatch(3, 8, (b"y",)))))
    house.kill()
    assert house.log.end_offset_for_epoch(7) == (3, 3)


def test_fetched_records_follow_the_flush_policy_of_appended_ones() -> None:
    house = _follower(TopicConfig(flush_messages=3))
    house.follower.append(memoryview(_bytes(FIRST)))
    assert house.log.recovery_point == 0
    house.follower.append(memoryview(_bytes(SECOND)))
    assert house.log.recovery_point == 3
    by_time = _follower(TopicConfig(flush_ms=1000))
    by_time.follower.append(memoryview(_bytes(FIRST)))
    by_time.clock.advance(2)
    at_once(by_time.logs.tick())
    assert by_time.log.recovery_point == 2


class _Watcher:
    def __init__(self, seen: list[str], name: str) -> None:
        self._seen, self._name = seen, name

    def changed(self) -> None:
        self._seen.append(self._name)

    def high_watermark_moved(self) -> None:
        self._seen.append(f"{self._name}, moved")


def test_followers_wait_for_the_end_and_consumers_for_the_high_watermark() -> None:
    house = _follower()
    seen: list[str] = []
    watcher = _Watcher(seen, "end")
    house.log.followers.add(watcher)
    house.log.readers.add(_Watcher(seen, "watermark"))
    house.log.followers.add(_Watcher(seen, "never")).popitem()
    house.append(b"a", leader_epoch=1)
    assert seen == ["end"]
    house.log.followers.add(watcher)
    house.log.sole_replica = True
    assert sorted(seen) == ["end", "end, moved", "watermark"], "a follower need not look for that"
    assert watcher in house.log.followers.members
    house.logs.delete("orders", 0)
    assert seen[3:] == ["end"]


def _watermark_after(house: LogHouse) -> int:
    log = house.logs.get("orders", 0)
    assert log is not None
    return log.high_watermark


def test_the_high_watermark_survives_a_stop_and_is_at_most_late_after_a_kill() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, SECOND, THIRD)))
    house.log.advance_high_watermark(3)
    at_once(house.logs.tick())
    house.log.advance_high_watermark(5)
    logs = LogManager(LOG_DIR, fs=house.fs.copy(), clock=house.clock)
    logs.open(lambda _topic: TopicConfig())
    log = logs.get("orders", 0)
    assert log is not None
    assert (log.sole_replica, log.high_watermark, log.log_end_offset) == (False, 3, 5)
    log.sole_replica = True
    assert log.high_watermark == 5
    house.logs.close()
    house.logs.open(lambda _topic: TopicConfig())
    assert _watermark_after(house) == 5


def test_without_a_checkpoint_the_high_watermark_is_the_start() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, SECOND, THIRD)))
    house.log.advance_high_watermark(5)
    house.log.delete_records(2)
    house.logs.close()
    house.fs.unlink(LOG_DIR / HIGH_WATERMARKS)
    house.logs.open(lambda _topic: house.config)
    assert _watermark_after(house) == 2


def test_deleting_records_stops_at_the_high_watermark() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, SECOND)))
    house.log.advance_high_watermark(2)
    with pytest.raises(KafkaError) as caught:
        house.log.delete_records(3)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    house.follower.move_start(3)
    assert (house.log.log_start_offset, house.log.high_watermark) == (3, 3)


def test_many_partitions_are_made_without_a_sync() -> None:
    house = LogHouse()
    before = house.fs.fsyncs
    for number in range(1, 50):
        house.logs.create("orders", number, house.log.topic_id, house.config)
    assert house.fs.fsyncs == before
    house.log.append(memoryview(_bytes(FIRST)))
    house.log.flush()
    assert house.fs.fsyncs > before


@pytest.mark.parametrize("epoch", [3, 2])
def test_a_loss_that_was_accepted_inside_what_a_follower_has_leaves_its_records(epoch: int) -> None:
    """One batch without records took the leader's damaged offsets; this follower was away, and has some of them."""
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, SECOND)))
    lost = parse_header(empty_batch(2, 6, epoch))
    assert lost.base_offset < house.log.log_end_offset <= lost.last_offset
    later = ModelBatch(6, 5, (b"d", b"e"), ProducerStamp(9, 0, 3))
    records = empty_batch(2, 6, epoch) + bytes(_bytes(later))
    assert house.follower.append(memoryview(records)) == 8
    assert [batch.values for batch in stored(house.log)] == [FIRST.values, SECOND.values, (), later.values]
    assert house.log.latest_epoch == 5


def test_a_batch_with_records_around_the_end_of_a_follower_is_refused() -> None:
    house = _follower()
    house.follower.append(memoryview(_bytes(FIRST, SECOND)))
    with pytest.raises(KafkaError) as refused:
        house.follower.append(memoryview(_bytes(ModelBatch(2, 3, (b"x", b"y")))))
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert stored(house.log) == [FIRST, SECOND]
