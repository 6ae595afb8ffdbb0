"""A log is read record by record, and a long record is applied while other tasks run."""

import asyncio

from broker_runtime.coordination.replay import replay
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.records.batch import Record
from tests.support.logs.logs import LogHouse

STEPS = 1_000


async def test_other_tasks_run_between_the_steps_of_a_long_record_and_the_next_record_waits_for_them() -> None:
    house, iterations = LogHouse(), 0
    applied: list[bytes | None] = []
    house.append(b"long", b"short")

    def apply(item: Record) -> Steps[None] | None:
        if item.value == b"long":
            return apply_long()
        applied.append(item.value)
        return None

    def apply_long() -> Steps[None]:
        for _ in range(STEPS):
            yield
        applied.append(b"long")

    reading = asyncio.ensure_future(replay(house.log, 0, 2, apply))
    while not reading.done():
        await asyncio.sleep(0)
        iterations += 1
    assert reading.result().batches == 1
    assert applied == [b"long", b"short"]
    assert iterations > STEPS / 10
