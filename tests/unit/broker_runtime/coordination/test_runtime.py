"""What a coordinator's runtime tells of a request that its log does not take as a whole."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from broker_runtime.coordination.runtime import CoordinatorRuntime
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batching import KeyValue
from tests.support.tally import Added, Tally, TallyDecision, TallyShard


class FussyLog:
    """Takes any batch but those that have the key `bad`; a batch holds a few records."""

    batch_bytes_max = 400
    held = True

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def append(self, records: Sequence[KeyValue]) -> int:
        keys = [key or b"" for key, _ in records]
        if b"bad" in keys:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "bad")
        self.keys += keys
        return len(self.keys) - len(keys)

    async def commit(self) -> None:
        """What is appended is durable."""


@asynccontextmanager
async def running(log: FussyLog) -> AsyncIterator[CoordinatorRuntime[Tally, Added]]:
    async def load() -> Tally:
        return Tally()

    runtime = CoordinatorRuntime(TallyShard(load), log, TimerService[TallyDecision](), Tally(), 10)
    await runtime.load()
    task = asyncio.ensure_future(runtime.run())
    yield runtime
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_the_log_refuses_at_once_is_refused_with_its_error_and_nothing_is_written() -> None:
    log = FussyLog()
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(lambda tally: ([Added("a", 1), Added("bad", 1)], None))
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert (log.keys, runtime.state.sums) == ([], {})
        await runtime.submit(lambda tally: ([Added("a", 1)], None))
        assert runtime.state.sums == {"a": 1}


async def test_who_asked_for_what_the_log_took_a_part_of_is_not_told_that_it_was_refused() -> None:
    log = FussyLog()
    records = [Added(f"name-{number}", 1) for number in range(100)] + [Added("bad", 1)]
    async with running(log) as runtime:
        with pytest.raises(KafkaError) as refused:
            await runtime.submit(lambda tally: (records, None))
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert 0 < len(log.keys) < 101
        assert len(runtime.state.sums) == len(log.keys), "state and log are the same"
