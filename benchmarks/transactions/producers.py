"""Transactional producers over plain sockets: many of them in one process, each with one transaction at a time.

Nothing is retried except what every client retries: a coordinator that is not there yet, and a transaction whose
predecessor is not complete. The pause before that is the 20 ms of librdkafka and of Apache Kafka's client.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import cast

import uvloop
from confluent_kafka.admin import AdminClient

from benchmarks.transactions import frames
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.metadata.topic_names import TRANSACTIONS_TOPIC
from kafka_bytes.batches import TRANSACTIONAL, BatchBody, ProducerStamp, advance_sequence

VALUE_BYTES = 100
_TIMEOUT_MS = 60_000
_PATIENCE_S = 60.0
_CONCURRENT = 51
_PAUSE_S = 0.02
_NOT_YET = frozenset({14, 15, 16, _CONCURRENT})
"""Errors of a coordinator that is loading, unknown or elsewhere, or that still ends the transaction before."""
_SIZE_BYTES = 4
Address = tuple[str, int]


class Link(asyncio.Protocol):
    """A connection to a broker. Its answers come in the order of the requests."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(ConnectionError("the broker closed the connection"))

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big")
            if len(received) < end:
                return
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(bytes(received[_SIZE_BYTES:end]))
            del received[:end]

    def ask(self, frame: bytes) -> "asyncio.Future[bytes]":
        """Send a request, and return the future of its answer without its size."""
        assert self._transport is not None
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.write(frame)
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(address: Address) -> Link:
    _, link = await asyncio.get_running_loop().create_connection(Link, *address)
    return link


async def coordinator_of(transactional_id: str, bootstrap: Address) -> Address:
    """Return the address of the id's coordinator, as soon as there is one."""
    link = await connect(bootstrap)
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        found = frames.read_coordinator(await link.ask(frames.find_coordinator(transactional_id)))
        if not found.error:
            link.close()
            return found.host, found.port
        _check_wait(found.error, deadline_s, "FindCoordinator")
        await asyncio.sleep(_PAUSE_S)


def _check_wait(error: int, deadline_s: float, what: str) -> None:
    if error not in _NOT_YET or time.monotonic() > deadline_s:
        raise RuntimeError(f"{what} was refused with error {error}")


class Producer:
    """A producer with a transactional id. `leaders` are the brokers of the partitions to which it writes."""

    def __init__(self, version: int, name: str, topic: str, leaders: Mapping[int, Address], records: int) -> None:
        """`version` is the transaction version. A transaction has `records` records, spread over the partitions."""
        self.name, self.commits_s, self.conflicts = name, list[float](), 0
        self._version, self._topic, self._leaders = version, topic, leaders
        self._body = BatchBody()
        for _ in range(max(1, records // len(leaders))):
            self._body.add(None, bytes(VALUE_BYTES))
        self._timestamp_ms = int(time.time() * 1000)
        self._sequences = dict.fromkeys(leaders, 0)
        self._stamp = frames.Stamp(0, -1, -1)
        self._links: dict[Address, Link] = {}
        self._coordinator = Link()

    async def start(self, bootstrap: Address) -> None:
        """Connect, and get a producer id."""
        self._coordinator = await connect(await coordinator_of(self.name, bootstrap))
        for address in dict.fromkeys(self._leaders.values()):
            self._links[address] = await connect(address)
        self._stamp = await init_producer(self._coordinator, self.name)

    async def transact(self) -> None:
        """Write and commit one transaction."""
        if self._version == 1:
            await self._add_partitions()
        batches: dict[Address, dict[int, bytes]] = {}
        for index, leader in self._leaders.items():
            batches.setdefault(leader, {})[index] = self._batch(index)
        await asyncio.gather(*[self._produce(leader, each) for leader, each in batches.items()])
        began_s = time.perf_counter()
        asked = frames.end_txn(self._version, self.name, self._stamp.producer_id, self._stamp.epoch)
        ended = frames.read_end_txn(self._version, await self._coordinator.ask(asked))
        if ended.error:
            raise RuntimeError(f"EndTxn was refused with error {ended.error}")
        self.commits_s.append(time.perf_counter() - began_s)
        if self._version > 1:
            if ended.epoch != self._stamp.epoch:
                # An epoch begins with the sequence number 0.
                self._sequences = dict.fromkeys(self._leaders, 0)
            self._stamp = ended

    async def _add_partitions(self) -> None:
        producer = self.name, self._stamp.producer_id, self._stamp.epoch
        asked = frames.add_partitions(*producer, self._topic, list(self._leaders))
        deadline_s = time.monotonic() + _PATIENCE_S
        while error := frames.read_add_partitions(await self._coordinator.ask(asked)):
            await self._pause(error, deadline_s, "AddPartitionsToTxn")

    def _batch(self, index: int) -> bytes:
        stamp = ProducerStamp(self._stamp.producer_id, self._stamp.epoch, self._sequences[index])
        self._sequences[index] = advance_sequence(stamp.base_sequence, self._body.count)
        return self._body.batch(self._timestamp_ms, stamp, attributes=TRANSACTIONAL)

    async def _produce(self, leader: Address, batches: frames.Batches) -> None:
        asked = frames.produce(self._version, self.name, self._topic, batches)
        deadline_s = time.monotonic() + _PATIENCE_S
        while error := frames.read_produce(self._version, self._topic, await self._links[leader].ask(asked)):
            await self._pause(error, deadline_s, "Produce")

    async def _pause(self, error: int, deadline_s: float, what: str) -> None:
        _check_wait(error, deadline_s, what)
        self.conflicts += 1
        await asyncio.sleep(_PAUSE_S)

    def close(self) -> None:
        for link in (self._coordinator, *self._links.values()):
            link.close()


async def init_producer(coordinator: Link, name: str) -> frames.Stamp:
    """Give the transactional id a producer id, as soon as the coordinator has loaded its log."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        found = frames.read_init_producer_id(await coordinator.ask(frames.init_producer_id(name, _TIMEOUT_MS)))
        if not found.error:
            return found
        _check_wait(found.error, deadline_s, "InitProducerId")
        await asyncio.sleep(_PAUSE_S)


def transact(
    bootstrap: str,
    topic: str,
    *,
    version: int,
    producers: int,
    partitions: int,
    records: int,
    seconds: float,
    pause_s: float = 0.0,
) -> dict[str, float]:
    """Commit transactions of `records` records in so many partitions, by all producers at once.

    Each producer pauses for `pause_s` after a transaction. The figures are the number of transactions, their rate,
    percentiles of the time of EndTxn, and how many requests had to be repeated for each transaction.
    """
    leaders = leaders_of(bootstrap, topic)
    at = _addresses(bootstrap)[0]
    indexes = [[(number + each) % len(leaders) for each in range(partitions)] for number in range(producers)]
    everyone = [
        Producer(version, f"producer-{number}", topic, {index: leaders[index] for index in mine}, records)
        for number, mine in enumerate(indexes)
    ]
    took_s = uvloop.run(_run(everyone, at, seconds, pause_s))
    commits_s = sorted(each for producer in everyone for each in producer.commits_s)
    return {
        "transactions": len(commits_s),
        "per_s": len(commits_s) / took_s,
        "commit_median_ms": commits_s[len(commits_s) // 2] * 1000,
        "commit_p99_ms": commits_s[int(len(commits_s) * 0.99)] * 1000,
        "conflicts": sum(producer.conflicts for producer in everyone) / len(commits_s),
    }


async def _run(producers: Sequence[Producer], bootstrap: Address, seconds: float, pause_s: float) -> float:
    for producer in producers:
        await producer.start(bootstrap)
    began_s = time.perf_counter()

    async def repeat(producer: Producer) -> None:
        while time.perf_counter() < began_s + seconds:
            await producer.transact()
            if pause_s:
                await asyncio.sleep(pause_s)

    await asyncio.gather(*map(repeat, producers))
    took_s = time.perf_counter() - began_s
    for producer in producers:
        producer.close()
    return took_s


def leaders_of(bootstrap: str, topic: str) -> dict[int, Address]:
    """Return the addresses of the leaders of the topic's partitions, as soon as the asked broker knows them."""
    admin, deadline_s = AdminClient({"bootstrap.servers": bootstrap}), time.monotonic() + _PATIENCE_S
    while True:
        found = admin.list_topics(topic, timeout=_PATIENCE_S)
        brokers = {broker.id: (broker.host, broker.port) for broker in found.brokers.values()}
        partitions = found.topics[topic].partitions
        if partitions and all(part.leader in brokers for part in partitions.values()):
            return {index: brokers[part.leader] for index, part in partitions.items()}
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{topic} has partitions without a leader")
        admin.poll(_PAUSE_S)


def init_producers(bootstrap: str, *, prefix: str, ids: int, connections: int) -> dict[str, float]:
    """Give so many new transactional ids a producer id, over so many connections to each broker."""
    names = [f"{prefix}-{number}" for number in range(ids)]
    return {"per_s": ids / uvloop.run(_init_all(bootstrap, names, connections))}


async def _init_all(bootstrap: str, names: Sequence[str], connections: int) -> float:
    await coordinator_of(names[0], _addresses(bootstrap)[0])
    leaders = leaders_of(bootstrap, TRANSACTIONS_TOPIC)
    by_broker: dict[Address, list[str]] = {}
    for name in names:
        by_broker.setdefault(leaders[partition_of(name, len(leaders))], []).append(name)
    began_s = time.perf_counter()
    await asyncio.gather(
        *[
            _init_some(broker, names[of::connections])
            for broker, names in by_broker.items()
            for of in range(connections)
        ]
    )
    return time.perf_counter() - began_s


async def _init_some(broker: Address, names: Sequence[str]) -> None:
    link = await connect(broker)
    for name in names:
        await init_producer(link, name)
    link.close()


def _addresses(bootstrap: str) -> list[Address]:
    split = (each.rpartition(":") for each in bootstrap.split(","))
    return [(host, int(port)) for host, _, port in split]
