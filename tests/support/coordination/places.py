"""Places where a coordinator's log is kept, and a runtime over each, for the contract of durable logs.

A `Place` can stop records from becoming durable, let them continue, and give the log to another process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from broker_runtime.config import TopicConfig
from broker_runtime.controller.history import History
from broker_runtime.controller.journal.file import FileJournal
from broker_runtime.controller.journal.kubernetes import KubernetesJournal
from broker_runtime.controller.journal.seam import Backing, DeposedError, Journal, Snapshot, SoleElection
from broker_runtime.controller.journal_log import JournalLog
from broker_runtime.coordination.deciding_slices import DecidingSlices
from broker_runtime.coordination.replay import replay
from broker_runtime.coordination.replicated_log import LeadershipLostError, ReplicatedLog
from broker_runtime.coordination.runtime import CoordinatorRuntime
from broker_runtime.coordination.seam import (
    DurableLog,
    TransactionalProducer,
)
from broker_runtime.coordination.timer_service import TimerService
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batching import KeyValue
from kafka_bytes.control import Marker
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.journal_store import MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock
from tests.support.groups.tally import Added, Tally, TallyDecision, TallyShard, decoded
from tests.support.logs.logs import TOPIC_ID, LogHouse
from tests.support.logs.replicas import brokers, leading

QUEUE_MAX = 40


class Place(Protocol):
    """The place that keeps the log of a coordinator."""

    log: Log
    lost: type[Exception]
    """The error that ends a runtime whose log belongs to another process."""

    def durable(self) -> DurableLog:
        """A log for one more process, or one more term."""
        ...

    async def load(self) -> Tally: ...

    def hold(self) -> None: ...

    def let_go(self) -> None: ...

    def give_away(self) -> None: ...


async def tally_of(log: Log, end: int) -> Tally:
    tally = Tally(next_offset=log.log_start_offset)
    await replay(log, log.log_start_offset, end, lambda item: tally.apply(decoded(item), item.offset))
    return tally


class GatedJournal:
    """A journal that commits when it may, or learns that it was deposed."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.batches_between_snapshots = journal.batches_between_snapshots
        self.gate = asyncio.Event()
        self.gate.set()
        self.deposed = False

    async def load(self) -> Snapshot | None:
        return await self.journal.load()

    async def commit(self) -> None:
        await self.gate.wait()
        if self.deposed:
            raise DeposedError("another controller has written")
        await self.journal.commit()

    async def write_snapshot(self, snapshot: Snapshot) -> None:
        await self.journal.write_snapshot(snapshot)

    async def close(self) -> None:
        await self.journal.close()


class Elected(SoleElection):
    held = True


class JournalPlace:
    lost: type[Exception] = DeposedError

    def __init__(self, journal: Callable[[Log], Journal]) -> None:
        self.clock = ManualClock()
        logs = LogManager(Path("/data"), fs=MemoryFileSystem(), clock=self.clock)
        logs.open(lambda _topic: TopicConfig())
        self.log = logs.create("tally", 0, TOPIC_ID, TopicConfig())
        self.journal = GatedJournal(journal(self.log))
        self.election = Elected(1)

    def durable(self) -> DurableLog:
        self.journal.deposed, self.election.held = False, True
        self.journal.gate.set()
        backing = Backing(self.log, self.journal, self.election)
        return JournalLog(backing, History(self.log, self.journal, 1 << 30, self.clock), self.clock)

    async def load(self) -> Tally:
        await self.journal.load()
        return await tally_of(self.log, self.log.log_end_offset)

    def hold(self) -> None:
        self.journal.gate.clear()

    def let_go(self) -> None:
        self.journal.gate.set()

    def give_away(self) -> None:
        self.journal.deposed, self.election.held = True, False
        self.journal.gate.set()


class PartitionPlace:
    """A partition led by broker 1; the other replicas fetch everything whenever they may."""

    lost: type[Exception] = LeadershipLostError

    def __init__(self, *replicas: int) -> None:
        self.house = LogHouse(TopicConfig(min_insync_replicas=len(replicas)))
        self.log = self.house.log
        self.replicas = replicas
        self.epoch = 0
        self.holding = False
        self.leader = leading(self.log, *replicas)

    def durable(self) -> DurableLog:
        self.epoch += 1
        self.leader = leading(self.log, *self.replicas, epoch=self.epoch)
        self.let_go()
        return Fetched(self, ReplicatedLog(self.leader, self.house.clock))

    async def load(self) -> Tally:
        return await tally_of(self.log, self.log.log_end_offset)

    def hold(self) -> None:
        self.holding = True

    def let_go(self) -> None:
        self.holding = False
        self.fetch()

    def fetch(self) -> None:
        if self.holding or self.leader.leader_epoch < 0:
            return
        infos = brokers(*self.replicas)
        for replica in self.replicas[1:]:
            self.leader.on_fetch(replica, infos[replica].epoch, self.log.log_end_offset, 0.0)

    def give_away(self) -> None:
        self.leader.resign()


class Fetched:
    """A replicated log whose followers fetch soon after each append."""

    def __init__(self, place: PartitionPlace, log: ReplicatedLog) -> None:
        self.place, self.log = place, log
        self.batch_bytes_max, self.record_bytes_max = log.batch_bytes_max, log.record_bytes_max

    @property
    def held(self) -> bool:
        return self.log.held

    def append(self, records: Sequence[KeyValue]) -> int:
        asyncio.get_running_loop().call_soon(self.place.fetch)
        return self.log.append(records)

    def append_in_steps(self, records: Sequence[KeyValue]) -> Steps[int]:
        end = yield from self.log.append_in_steps(records)
        # Followers that fetched before the last step would never fetch it.
        asyncio.get_running_loop().call_soon(self.place.fetch)
        return end

    def append_transactional(self, records: Sequence[KeyValue], producer: TransactionalProducer) -> int:
        asyncio.get_running_loop().call_soon(self.place.fetch)
        return self.log.append_transactional(records, producer)

    def append_marker(self, marker: Marker) -> int:
        asyncio.get_running_loop().call_soon(self.place.fetch)
        return self.log.append_marker(marker)

    def flush(self) -> None:
        self.log.flush()

    async def commit(self) -> None:
        await self.log.commit()


def file_place() -> Place:
    return JournalPlace(lambda log: FileJournal(log, InlineExecutor()))


def store_place() -> Place:
    return JournalPlace(lambda log: KubernetesJournal(log, MemoryStore(SharedObjects()), "tally", 5.0))


PLACES: dict[str, Callable[[], Place]] = {
    "file journal": file_place,
    "kubernetes journal": store_place,
    "two replicas": lambda: PartitionPlace(1, 2),
}


class Process:
    """A runtime and the task that runs it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.shard = TallyShard(place.load)
        self.timers: TimerService[TallyDecision] = TimerService()
        self.durable = place.durable()
        self.runtime: CoordinatorRuntime[Tally, Added] = CoordinatorRuntime(
            self.shard, self.durable, self.timers, Tally(), QUEUE_MAX, DecidingSlices()
        )
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.runtime.load()
        self.task = asyncio.ensure_future(self.runtime.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.task

    async def add(self, name: str = "x", number: int = 1) -> int:
        """Add a number and return the offset that the decision expected for its record."""

        def decide(tally: Tally) -> tuple[Sequence[Added], int]:
            return [Added(name, number)], tally.next_offset

        return await self.runtime.submit(decide)

    async def slices(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[Process]:
    process = Process(place)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()


def codes(results: Sequence[object]) -> list[object]:
    return [each.code if isinstance(each, KafkaError) else each for each in results]
