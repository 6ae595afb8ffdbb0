"""The `file` journal while files cannot be opened: it waits a moment, and distinguishes that from a failed fsync."""

import asyncio
from collections.abc import Callable

import pytest

from broker_runtime.controller.journal.file import FileJournal
from broker_runtime.controller.journal.seam import JournalFailedError
from kafka_bytes.batches import ProducerStamp
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.logs.logs import LogHouse

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def house() -> LogHouse:
    """A house whose log has a file that the next sync must open."""
    house = LogHouse()
    house.append(b"a", producer=ProducerStamp(9, 0, 0))
    house.log.files.roll()
    house.append(b"b")
    return house


def in_s(seconds: float, action: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, action)


async def test_a_commit_waits_while_descriptors_are_short(house: LogHouse) -> None:
    house.fs.no_descriptors = True
    in_s(2, house.fs.mend)
    await FileJournal(house.log, InlineExecutor()).commit()
    assert (house.log.recovery_point, house.log.failure) == (2, None)


async def test_a_commit_fails_when_they_are_short_for_three_seconds(house: LogHouse) -> None:
    house.fs.no_descriptors = True
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(JournalFailedError, match=r"metadata cannot be made durable: .* too many open files"):
        await FileJournal(house.log, InlineExecutor()).commit()
    assert 3 < asyncio.get_running_loop().time() - began_s < 3.2
    assert (house.log.recovery_point, house.log.failure) == (0, None)


async def test_after_a_failed_fsync_nothing_is_tried_again(house: LogHouse) -> None:
    house.fs.failing_fsync = True
    in_s(0.05, house.fs.mend)
    with pytest.raises(JournalFailedError):
        await FileJournal(house.log, InlineExecutor()).commit()
    assert house.log.failure is not None
