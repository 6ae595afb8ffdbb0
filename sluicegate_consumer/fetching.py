"""Reads the assigned partitions from their leaders: one fetch at a time per leader; finds new leaders when needed."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from kafka_bytes.push.partition_text import NO_LEADER
from sluicegate_consumer.backoff import Backoff
from sluicegate_consumer.brokers import BrokerLink, Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.errors import (
    Code,
    ConsumerError,
    CorruptRecordsError,
    FetchRefusedError,
    ProtocolError,
    code_name,
)
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.record import TopicPartition
from sluicegate_consumer.wire.batches import Batch, delivered, split
from sluicegate_consumer.wire.fetch import FetchedPartition, FetchLimits, Wanted, fetch_request, read_fetch
from sluicegate_consumer.wire.kafka import (
    Sought,
    list_offsets_request,
    metadata_request,
    read_list_offsets,
    read_metadata,
)

log = logging.getLogger(__name__)

_FATAL = {Code.TOPIC_AUTHORIZATION_FAILED, Code.UNSUPPORTED_VERSION}

_SLICE_BYTES = 64 << 10
"""Bytes after which other tasks of the event loop run: a megabyte of small batches takes 20 ms."""


class Fetching:
    """Fetches the partitions of one StartFetcher until `stop`."""

    def __init__(
        self,
        readers: Sequence[PartitionReader],
        brokers: Brokers,
        settings: Settings,
        deliver: Callable[[PartitionReader], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._readers = readers
        self._brokers = brokers
        self._settings = settings
        self._deliver = deliver
        self._failed = failed
        self._leaders_wanted = asyncio.Event()
        self._by_broker: dict[int, asyncio.Event] = {}
        """The events that wake the fetch loops, by broker."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._run(self._find_leaders)
        self._follow_leaders()

    def stop(self) -> None:
        """Stop fetching partitions at once. Pending responses and undelivered records are discarded."""
        for reader in self._readers:
            reader.drop()
        for task in self._tasks:
            task.cancel()

    def wake(self) -> None:
        """Wake the fetch loops, because a partition has buffer space again."""
        for event in self._by_broker.values():
            event.set()

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ConsumerError as error:
            self._failed(error)
        except Exception as error:
            # An internal error must reach the application, not end in a task whose result is never read.
            log.exception("fetching has failed")
            self._failed(error)

    def _follow_leaders(self) -> None:
        """Start a loop for each leader that has none."""
        for reader in self._readers:
            if reader.leader != NO_LEADER and self._brokers.get(reader.leader) is None:
                reader.leader = NO_LEADER
        for node in {reader.leader for reader in self._readers if reader.leader != NO_LEADER}:
            if node not in self._by_broker:
                wake = self._by_broker[node] = asyncio.Event()
                self._run(partial(self._read_from, node, wake))
        if any(reader.leader == NO_LEADER for reader in self._readers):
            self._leaders_wanted.set()
        self.wake()

    def _lost(self, readers: Iterable[PartitionReader]) -> None:
        """Mark the leaders of partitions as unknown and request them again; positions stay."""
        for reader in readers:
            reader.leader = NO_LEADER
        self._leaders_wanted.set()

    async def _find_leaders(self) -> None:
        """Find leaders: at once, then with growing waits until no leader has been lost for `backoff_max_s`."""
        backoff = self._backoff()
        now = asyncio.get_running_loop().time
        quiet_since_s = now()
        while True:
            await self._leaders_wanted.wait()
            self._leaders_wanted.clear()
            if now() - quiet_since_s > self._settings.backoff_max_s:
                backoff.reset()
            lost = {reader.tp: reader for reader in self._readers if reader.leader == NO_LEADER}
            try:
                await self._ask_for_leaders(lost)
            except (OSError, ProtocolError) as error:
                log.warning("the leaders of %d partitions are not known: %s", len(lost), error)
            self._follow_leaders()
            await asyncio.sleep(backoff.next_s())
            quiet_since_s = now()

    async def _ask_for_leaders(self, lost: Mapping[TopicPartition, PartitionReader]) -> None:
        link = self._brokers.any_link()
        if link is None:
            raise ProtocolError("no broker is known")
        body = await link.ask(metadata_request(sorted({topic for topic, _ in lost})))
        found = read_metadata(body)
        self._brokers.learn(found.brokers)
        for at, reader in lost.items():
            leader = found.leaders.get(at)
            # An older epoch comes from a broker that does not know the leader that refused the fetch.
            if leader is not None and leader.node != NO_LEADER and leader.epoch >= reader.leader_epoch:
                reader.leader, reader.leader_epoch = leader.node, leader.epoch

    async def _read_from(self, node: int, wake: asyncio.Event) -> None:
        backoff = self._backoff()
        turn = 0
        while True:
            wake.clear()
            led = [reader for reader in self._readers if reader.leader == node and reader.fetchable]
            wanted, room = self._with_room(led)
            if not wanted:
                await wake.wait()
                continue
            link = self._brokers.link(node)
            if link is None:
                self._lost(led)
                continue
            turn += 1
            begin = turn % len(wanted)
            try:
                await self._fetch(link, wanted[begin:] + wanted[:begin], room, crowded=len(wanted) < len(led))
                backoff.reset()
            except (OSError, ProtocolError) as error:
                log.info("broker %d cannot be read from: %s", node, error)
                self._lost(led)
                await asyncio.sleep(backoff.next_s())

    def _with_room(self, led: Sequence[PartitionReader]) -> tuple[list[PartitionReader], int]:
        """Return the partitions to fetch now, and how many more bytes may be buffered for them.

        Each stream has its share of the buffer: a stream that is not read blocks itself and no other.
        """
        settings = self._settings
        streams = {reader.stream for reader in self._readers}
        room = dict.fromkeys(streams, settings.prefetch_bytes_max // max(len(streams), 1))
        for reader in self._readers:
            room[reader.stream] -= reader.buffered_bytes
        wanted = [
            each
            for each in led
            if each.buffered_bytes < settings.partition_prefetch_bytes_max and room[each.stream] > 0
        ]
        return wanted, sum(room[stream] for stream in {each.stream for each in wanted})

    async def _fetch(self, link: BrokerLink, wanted: Sequence[PartitionReader], room: int, *, crowded: bool) -> None:
        """Fetch partitions; those without an offset are first looked up, then fetched with the others."""
        unplaced = [reader for reader in wanted if reader.fetch_offset < 0]
        if unplaced:
            await self._place(link, unplaced)
        await link.ready()
        placed = {reader.tp: reader for reader in wanted if reader.fetch_offset >= 0 and reader.fetchable}
        if not placed:
            return
        asked_from = {tp: reader.fetch_offset for tp, reader in placed.items()}
        settings = self._settings
        wait_s = settings.fetch_wait_crowded_s if crowded else settings.fetch_wait_s
        limits = FetchLimits(round(wait_s * 1000), 1, min(settings.fetch_bytes_max, room), self._read_committed)
        version = link.fetch_version
        request = fetch_request(version, limits, [self._wanted(reader) for reader in placed.values()])
        body = await link.ask(request, wait_s)
        for part in read_fetch(version, body):
            reader = placed.get(TopicPartition(part.topic, part.partition))
            if reader is None:
                raise ProtocolError(f"{part.topic}-{part.partition} was not requested")
            if not reader.dropped and reader.fetch_offset == asked_from[reader.tp]:
                self._take(reader, alone(part, len(body)))
                if len(part.records) > _SLICE_BYTES:
                    await asyncio.sleep(0)

    @property
    def _read_committed(self) -> bool:
        return self._settings.isolation == "read_committed"

    def _wanted(self, reader: PartitionReader) -> Wanted:
        topic, number = reader.tp
        return Wanted(topic, number, reader.leader_epoch, reader.fetch_offset, self._settings.partition_fetch_bytes_max)

    async def _place(self, link: BrokerLink, unplaced: Sequence[PartitionReader]) -> None:
        """Look up the log start or end that an offset below 0 stands for."""
        sought = [Sought(*reader.tp, reader.leader_epoch, reader.fetch_offset) for reader in unplaced]
        body = await link.ask(list_offsets_request(sought, read_committed=self._read_committed))
        found = read_list_offsets(body)
        for reader in unplaced:
            code, offset = found.get(reader.tp, (Code.UNKNOWN_TOPIC_OR_PARTITION, -1))
            if reader.dropped:
                continue
            if code == Code.NONE and offset >= 0:
                reader.found(offset)
            else:
                self._refused(reader, code)

    def _take(self, reader: PartitionReader, part: FetchedPartition) -> None:
        if part.error_code == Code.OFFSET_OUT_OF_RANGE:
            log.warning("offset %d of %s-%d is out of range", reader.fetch_offset, *reader.tp)
            reader.out_of_range = True
            return
        if part.error_code:
            self._refused(reader, part.error_code)
            return
        batches: list[Batch] = []
        try:
            batches.extend(batch for batch in split(part.records) if batch.header.last_offset >= reader.fetch_offset)
        except CorruptRecordsError as error:
            if not batches:
                self._corrupt(reader, error)
                return
            # The next fetch begins with the corrupt batch: the batches before it are valid.
        if batches:
            wanted = delivered(batches, part.aborted, self._settings.unpacked_bytes_max)
            reader.take(wanted, batches[-1].header.last_offset + 1)
            if wanted:
                self._deliver(reader)
        elif part.records:
            raise CorruptRecordsError(
                f"{reader.tp.topic}-{reader.tp.partition} has no complete batch at offset {reader.fetch_offset}"
            )

    def _corrupt(self, reader: PartitionReader, error: CorruptRecordsError) -> None:
        reader.corrupt_fetches += 1
        if reader.corrupt_fetches > self._settings.corrupt_retries_max:
            raise CorruptRecordsError(f"{reader.tp.topic}-{reader.tp.partition}: {error}") from error
        log.warning("%s-%d: %s; it is fetched again", *reader.tp, error)
        self._lost([reader])

    def _refused(self, reader: PartitionReader, code: int) -> None:
        where = f"{reader.tp.topic}-{reader.tp.partition}"
        if code in _FATAL:
            raise FetchRefusedError(f"the consumer is not authorized to read {where}: {code_name(code)}")
        log.info("%s cannot be read from broker %d: %s", where, reader.leader, code_name(code))
        self._lost([reader])

    def _backoff(self) -> Backoff:
        return Backoff(self._settings.backoff_min_s, self._settings.backoff_max_s, random.random)


def alone(part: FetchedPartition, answer_bytes: int) -> FetchedPartition:
    """Copy the records of a partition if they are few, so that the whole response can be freed.

    Otherwise they keep the whole response in memory while they wait.
    """
    if 2 * len(part.records) > answer_bytes:
        return part
    return part._replace(records=memoryview(bytes(part.records)))
