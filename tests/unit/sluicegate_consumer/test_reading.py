"""The delivered records of a partition, and the reported position."""

import tracemalloc

import pytest

from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.record import Record
from sluicegate_consumer.streams import StreamQueue
from sluicegate_consumer.wire.batches import Batch, split
from sluicegate_consumer.wire.push import PartitionOffset
from tests.support.logs.packed_batches import timed

LIMIT = 1 << 20


class Partition:
    """A reader, and the number of its reports of free space."""

    def __init__(self, offset: int = 0, number: int = 0) -> None:
        self.rooms = 0
        self.reader = PartitionReader(PartitionOffset("t", number, offset, leader=1), 0, LIMIT, self._room)

    def _room(self) -> None:
        self.rooms += 1

    def drain(self) -> list[Record]:
        found = []
        while self.reader.has_more:
            record = self.reader.next_record()
            if record is not None:
                found.append(record)
        return found


def batch(first: int, count: int) -> Batch:
    (found,) = split(memoryview(timed([5] * count)))
    return found._replace(header=found.header._replace(base_offset=first, last_offset_delta=count - 1))


def test_a_place_is_told_until_it_is_found() -> None:
    partition = Partition(offset=-1)
    assert partition.reader.told == -1
    partition.reader.found(40)
    assert partition.reader.told == 40


def test_unacknowledged_records_are_not_reported() -> None:
    partition = Partition()
    partition.reader.take([batch(0, 3)], 3)
    assert partition.reader.told == 0
    first, second, _ = partition.drain()
    assert partition.reader.told == 0
    assert second.acknowledge()
    assert partition.reader.told == 2, "and with it all before it"
    assert first.acknowledge()
    assert partition.reader.told == 2, "it does not go back"


def test_a_position_past_empty_batches_is_reported_once_all_before_it_is_acknowledged() -> None:
    partition = Partition()
    partition.reader.take([batch(0, 1)], 9)
    (record,) = partition.drain()
    assert partition.reader.told == 0
    record.acknowledge()
    assert partition.reader.told == 9


def test_records_before_the_offset_that_was_asked_for_are_left_out() -> None:
    partition = Partition(offset=4)
    partition.reader.take([batch(2, 5)], 7)
    assert [record.offset for record in partition.drain()] == [4, 5, 6]


def test_room_is_told_of_with_each_batch() -> None:
    partition = Partition()
    partition.reader.take([batch(0, 2), batch(2, 2)], 4)
    full = partition.reader.buffered_bytes
    partition.drain()
    assert full > 0
    assert partition.reader.buffered_bytes == 0
    assert partition.rooms == 2


@pytest.mark.parametrize("delivered", [0, 1, 2])
def test_after_a_stop_nothing_is_delivered_and_what_was_may_be_acknowledged(delivered: int) -> None:
    partition = Partition()
    partition.reader.take([batch(0, 2), batch(2, 2)], 4)
    found = [partition.reader.next_record() for _ in range(delivered)]
    partition.reader.drop()
    assert not partition.reader.has_more
    assert partition.reader.next_record() is None
    for record in found:
        assert record is not None
        assert not record.is_current
        assert record.acknowledge()
    assert partition.reader.told == delivered
    partition.reader.revoke()
    assert not any(record.acknowledge() for record in found if record is not None)


def test_partitions_of_a_stream_take_turns_of_a_batch() -> None:
    queue = StreamQueue()
    partitions = [Partition(number=number) for number in range(2)]
    for partition in partitions:
        partition.reader.take([batch(0, 2), batch(2, 1)], 3)
        queue.put(partition.reader)
    order = [record.partition for record in iter(queue.next_record, None)]
    assert order == [0, 0, 1, 1, 0, 1]
    partitions[1].reader.take([batch(3, 1)], 4)
    queue.put(partitions[1].reader)
    partitions[1].reader.drop()
    assert queue.next_record() is None


def test_many_small_batches_count_for_what_they_take() -> None:
    """The records alone do not count: a limit's worth of them would take ten times the memory."""
    partition, raw = Partition(), memoryview(timed([5]) * 1_000)
    tracemalloc.start()
    try:
        partition.reader.take(list(split(raw)), 1)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken + len(raw) < 1.5 * partition.reader.buffered_bytes
