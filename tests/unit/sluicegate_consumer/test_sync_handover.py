"""Records that are handed over to another thread are checked again, and survive interruptions."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from sluicegate_consumer import sync
from sluicegate_consumer.consumer import Consumer
from sluicegate_consumer.errors import ConsumerError
from sluicegate_consumer.record import Record
from sluicegate_consumer.streams import Flow
from sluicegate_consumer.sync import SyncConsumer


class _Partition:
    dropped = False

    def acknowledge(self, offset: int) -> bool:
        return True


class _Consumer(Consumer):
    """Returns five records at once, and has a coordinator that is silent when the test says so."""

    def __init__(self) -> None:
        super().__init__("k1:1", "g", topics=["t"])
        self.now_s = 0.0
        self._flow = Flow(lambda: self.now_s)
        self._flow.lease_until(1.0)
        self.first = 0

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def take_many(self) -> list[Record]:
        first, self.first = self.first, self.first + 5
        return [Record(_Partition(), ("t", 0, 0), offset, 0, None, None, ()) for offset in range(first, first + 5)]

    def hear(self) -> None:
        self.loop.call_soon_threadsafe(self._flow.lease_until, self.now_s + 1.0)


@pytest.fixture
def running() -> Iterator[tuple[SyncConsumer, _Consumer]]:
    made: list[_Consumer] = []

    def make() -> _Consumer:
        made.append(_Consumer())
        return made[-1]

    with SyncConsumer(make) as found:
        yield found, made[0]


def test_records_checked_after_the_session_expired_are_kept_if_it_continues(
    running: tuple[SyncConsumer, _Consumer],
) -> None:
    found, inner = running
    assert next(found).offset == 0
    inner.now_s = 2.0
    timer = threading.Timer(0.05, inner.hear)
    timer.start()
    assert [next(found).offset for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    timer.join()


def test_an_interrupted_wait_loses_no_record(
    running: tuple[SyncConsumer, _Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = running

    def interrupted(coming: list[Future[Any]]) -> None:
        coming[0].exception()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sync, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(found)
    assert [next(found).offset for _ in range(6)] == [0, 1, 2, 3, 4, 5]


def test_a_listener_that_waits_for_the_thread_it_runs_in_is_told_so(
    running: tuple[SyncConsumer, _Consumer],
) -> None:
    found, inner = running

    async def commit() -> None:
        found.commit()

    with pytest.raises(ConsumerError, match="the listener waited"):
        asyncio.run_coroutine_threadsafe(commit(), inner.loop).result(10)
