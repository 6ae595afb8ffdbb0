"""A consumer of the push protocol as a separate process, which tests may kill.

Arguments: FAMILY BOOTSTRAP GROUP ID PATTERN SESSION_MS. FAMILY is the library (`library`), or an independent
implementation (`plain`).

It reports what it does on its standard output, a line each that begins with the time of the machine's monotonic clock:
`started TOPIC PARTITION ...`, `stopped` (on request, before it answers), `lost` (without a request), `read TOPIC
PARTITION OFFSET VALUE`, `left`. On SIGTERM it leaves.
"""

import asyncio
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import confluent_kafka

from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    ClusterMetadataRequest,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherResponse,
    StopFetcherResponse,
)
from kafka_bytes.push.partition_text import read_partition
from sluicegate_consumer import Consumer, Listener, Settings

POLL_S = 0.01
RETRY_S = 0.05
CONNECT_S = 2.0
_leaving = False


def say(*lines: str) -> None:
    """Write all lines at once: a process that is then killed has reported all that it has delivered."""
    now_s = time.monotonic()
    text = "".join(f"{now_s:.6f} {line}\n" for line in lines).encode()
    while text:
        text = text[os.write(1, text) :]


def _leave(number: int, frame: object) -> None:
    del number, frame
    global _leaving
    _leaving = True


class _LostError(Exception):
    """The coordinator must be found again."""


class PlainMember:
    """The protocol as documented, on one thread; librdkafka reads the records of the assigned partitions."""

    def __init__(self, bootstrap: str, group: str, name: str, pattern: str, session_ms: int) -> None:
        self._brokers = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in bootstrap.split(","))]
        self._asked = RegisterConsumerRequest(group, name, f"*1*{pattern}", True, "smallest", session_ms)
        self._group, self._name, self._session_s = group, name, session_ms / 1000
        self._positions: dict[tuple[str, int], int] = {}
        self._fetcher = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reads-what-it-is-told",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 20,
                "topic.metadata.refresh.interval.ms": 500,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        while not _leaving:
            for place in list(self._brokers):
                try:
                    with self._connect(self._coordinator(place)) as coordinator:
                        self._serve(coordinator)
                    return
                except (_LostError, OSError):
                    if self._positions:
                        say("lost")
                    self._read_only({})
                    threading.Event().wait(RETRY_S)

    def _connect(self, place: tuple[str, int]) -> socket.socket:
        return socket.create_connection(place, timeout=CONNECT_S)

    def _coordinator(self, place: tuple[str, int]) -> tuple[str, int]:
        with self._connect(place) as broker:
            broker.sendall(layouts.CLUSTER_METADATA_REQUEST.write(ClusterMetadataRequest(self._group)))
            found = layouts.CLUSTER_METADATA_RESPONSE.read(_frame(broker))
        places = {each.id: (each.host, each.port) for each in found.brokers_info}
        if found.error_code or found.coordinator_id not in places:
            raise _LostError(f"no coordinator: error {found.error_code}")
        return places[found.coordinator_id]

    def _serve(self, coordinator: socket.socket) -> None:
        """Serve the coordinator until this member has left. Raises _LostError, OSError."""
        coordinator.sendall(layouts.REGISTER_CONSUMER_REQUEST.write(self._asked))
        code = layouts.REGISTER_CONSUMER_RESPONSE.read(_frame(coordinator)).error_code
        if code:
            raise _LostError(f"not registered: error {code}")
        heard_s, pings_left = time.monotonic(), 2
        while pings_left:
            called, _, _ = select.select([coordinator], [], [], 0)
            if called:
                frame = _frame(coordinator)
                heard_s = time.monotonic()
                was_ping = self._answer(coordinator, frame)
                pings_left -= _leaving and was_ping
                continue
            messages = self._fetcher.consume(200, POLL_S)
            # Records that arrived before a clock check are delivered after it, or not at all.
            if time.monotonic() - heard_s > self._session_s:
                raise _LostError("nobody has called for a session")
            self._deliver(messages)
        say("left")

    def _deliver(self, messages: list[Any]) -> None:
        lines = []
        for each in messages:
            place = each.topic(), each.partition()
            if each.error() is None and place in self._positions:
                lines.append(f"read {each.topic()} {each.partition()} {each.offset()} {each.value().decode()}")
                self._positions[place] = each.offset() + 1
        say(*lines)

    def _answer(self, coordinator: socket.socket, frame: memoryview) -> bool:
        """Answer a call; return whether it was a ping."""
        kind = own_keys.type_of(frame)
        told = tuple(PartitionOffset(topic, str(number), at) for (topic, number), at in self._positions.items())
        if kind == own_keys.PING:
            coordinator.sendall(layouts.PING_RESPONSE.write(PingResponse(0, self._name, told)))
        elif kind == own_keys.STOP_FETCHER:
            self._read_only({})
            say("stopped")
            coordinator.sendall(layouts.STOP_FETCHER_RESPONSE.write(StopFetcherResponse(0, self._name, told)))
        else:
            start = layouts.START_FETCHER_REQUEST.read(frame)
            parts = [part for thread in start.ownership_info for part in thread.assigned_parts]
            say(started((each.topic, read_partition(each.partition)[1]) for each in parts))
            self._read_only({(each.topic, read_partition(each.partition)[1]): each.offset for each in parts})
            coordinator.sendall(layouts.START_FETCHER_RESPONSE.write(StartFetcherResponse(0, self._name)))
        return kind == own_keys.PING

    def _read_only(self, positions: dict[tuple[str, int], int]) -> None:
        """Read exactly these partitions; offsets below 0 mean the same to librdkafka."""
        self._positions = positions
        if positions:
            self._fetcher.assign(
                [confluent_kafka.TopicPartition(topic, number, at) for (topic, number), at in positions.items()]
            )
        else:
            self._fetcher.unassign()


def _frame(source: socket.socket) -> memoryview:
    return memoryview(_exactly(source, struct.unpack(">i", _exactly(source, 4))[0]))


def _exactly(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = source.recv(count - len(found))
        if not piece:
            raise _LostError("the connection has ended")
        found += piece
    return found


def started(places: Iterable[tuple[str, int]]) -> str:
    return " ".join(["started", *(f"{topic} {partition}" for topic, partition in places)])


class _Tells(Listener):
    async def assigned(self, partitions: Collection[tuple[str, int]]) -> None:
        say(started(partitions))

    async def revoked(self, partitions: Collection[tuple[str, int]]) -> None:
        say("stopped")

    async def lost(self, partitions: Collection[tuple[str, int]]) -> None:
        say("lost")


async def _with_library(bootstrap: str, group: str, name: str, pattern: str, session_ms: int) -> None:
    settings = Settings(
        consumer_id=name,
        session_timeout_s=session_ms / 1000,
        callback_timeout_s=session_ms / 3000,
        connect_timeout_s=CONNECT_S,
        request_timeout_s=CONNECT_S,
        fetch_wait_s=0.02,
        backoff_max_s=0.2,
    )
    consumer = Consumer(bootstrap, group, pattern=pattern, listener=_Tells(), settings=settings)
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    await consumer.start()
    reading = asyncio.create_task(_read(consumer))
    ended = asyncio.create_task(leaving.wait())
    await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
    await consumer.close()
    await reading
    ended.cancel()
    say("left")


async def _read(consumer: Consumer) -> None:
    async for each in consumer:
        say(f"read {each.topic} {each.partition} {each.offset} {(each.value or b'').decode()}")
        each.acknowledge()


def library(bootstrap: str, group: str, name: str, pattern: str, session_ms: int) -> None:
    asyncio.run(_with_library(bootstrap, group, name, pattern, session_ms))


def plain(bootstrap: str, group: str, name: str, pattern: str, session_ms: int) -> None:
    signal.signal(signal.SIGTERM, _leave)
    PlainMember(bootstrap, group, name, pattern, session_ms).run()


FAMILIES: Mapping[str, Callable[[str, str, str, str, int], None]] = {"library": library, "plain": plain}


def main() -> None:
    family, bootstrap, group, name, pattern, session_ms = sys.argv[1:]
    FAMILIES[family](bootstrap, group, name, pattern, int(session_ms))


if __name__ == "__main__":
    main()
