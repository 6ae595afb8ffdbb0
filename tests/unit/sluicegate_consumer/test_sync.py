"""The consumer for applications without an event loop, over a scripted one."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from sluicegate_consumer.consumer import Consumer
from sluicegate_consumer.errors import ConsumerError
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.record import Record
from sluicegate_consumer.sync import SyncConsumer
from sluicegate_consumer.wire.push import PartitionOffset


class Given:
    """Replaces `Consumer`: returns from `take_many` one portion after the other."""

    def __init__(self, *portions: list[Record], acknowledges: bool = False) -> None:
        self.portions: Iterator[list[Record]] = iter(portions)
        self.acknowledges = acknowledges
        self.closed = 0
        self.fails: Exception | None = None

    async def start(self) -> None:
        if self.fails is not None:
            raise self.fails

    async def take_many(self) -> list[Record]:
        found = next(self.portions, None)
        if found is None:
            raise StopAsyncIteration
        return found

    def may_deliver(self, record: Record) -> bool:
        return record.is_current

    async def close(self) -> None:
        self.closed += 1


def reader() -> PartitionReader:
    return PartitionReader(PartitionOffset("t", 0, 0), 0, 1 << 20, lambda: None)


def records(source: PartitionReader, *offsets: int) -> list[Record]:
    return [Record(source, ("t", 0, 0), offset, 0, None, b"", ()) for offset in offsets]


def made(given: Given) -> SyncConsumer:
    return SyncConsumer(lambda: cast(Consumer, cast(Any, given)))


def test_records_come_in_their_order_until_the_consumer_ends() -> None:
    source = reader()
    given = Given(records(source, 0, 1), records(source, 2))
    with made(given) as consumer:
        assert [record.offset for record in consumer] == [0, 1, 2]
    assert given.closed == 1
    assert source.acknowledged == 0


def test_asking_for_the_next_acknowledges_where_that_is_wanted() -> None:
    source = reader()
    with made(Given(records(source, 0, 1, 2), acknowledges=True)) as consumer:
        for acknowledged in (0, 1, 2):
            next(consumer)
            assert source.acknowledged == acknowledged


def test_what_was_handed_over_and_taken_away_since_is_not_delivered() -> None:
    taken_away, kept = reader(), reader()
    with made(Given([*records(taken_away, 0, 1), *records(kept, 7)])) as consumer:
        assert next(consumer).offset == 0
        taken_away.drop()
        assert next(consumer).offset == 7


def test_it_is_used_within_with_and_once() -> None:
    consumer = made(Given())
    with pytest.raises(ConsumerError):
        next(consumer)
    with consumer:
        pass
    with pytest.raises(ConsumerError):
        next(consumer)
    with pytest.raises(ConsumerError), consumer:
        pass


def test_one_that_cannot_be_started_leaves_no_thread() -> None:
    given = Given()
    given.fails = ConsumerError("it cannot be")
    consumer = made(given)
    with pytest.raises(ConsumerError, match="it cannot be"), consumer:
        pass
    assert consumer._thread is not None
    assert not consumer._thread.is_alive()
