"""A process that reads as a member of a group with an ordinary client, or writes the records for other members.

It leaves when its stdin ends. It writes each read to its file before it continues, so that a kill -9 loses none: `r
PARTITION OFFSET SECONDS` for a record, `n SECONDS` when the client reports a change.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import Producer, TopicPartition

from sluicegate_consumer import Consumer, Listener, Settings

_POLL_S = 0.05
_PATIENCE = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 50, "reconnect.backoff.max.ms": 100, "log_level": 2}


class Said:
    """The file of events."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def read(self, partition: int, offset: int) -> None:
        os.write(self._file, b"r %d %d %.6f\n" % (partition, offset, time.monotonic()))

    def notice(self) -> None:
        os.write(self._file, b"n %.6f\n" % time.monotonic())


def _librdkafka(asked: Mapping[str, Any], said: Said, leaving: threading.Event) -> None:
    """Read with librdkafka.

    Offsets are committed as by default: every five seconds, and when partitions are revoked.
    """

    def notice(_consumer: confluent_kafka.Consumer, _partitions: list[TopicPartition]) -> None:
        said.notice()

    settings = {"bootstrap.servers": asked["bootstrap"], "group.id": asked["group"], "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings | _PATIENCE | asked["settings"])
    consumer.subscribe([asked["topic"]], on_assign=notice, on_revoke=notice, on_lost=notice)
    while not leaving.is_set():
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            said.read(message.partition(), message.offset())
    consumer.close()


class _Noticing(Listener):
    def __init__(self, said: Said) -> None:
        self._said = said

    async def assigned(self, partitions: Collection[object]) -> None:
        self._said.notice()

    revoked = lost = assigned


def _sluicegate(asked: Mapping[str, Any], said: Said, leaving: threading.Event) -> None:
    """Read with the push consumer. Offsets are reported with each ping, and when partitions are revoked."""
    asyncio.run(_read(asked, said, leaving))


async def _read(asked: Mapping[str, Any], said: Said, leaving: threading.Event) -> None:
    settings = Settings(acknowledge="automatic", **asked["settings"])
    bootstrap, group, topic = asked["bootstrap"], asked["group"], asked["topic"]
    consumer = Consumer(bootstrap, group, topics=[topic], listener=_Noticing(said), settings=settings)
    async with consumer, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(_read_on(consumer, said))
        await asyncio.to_thread(leaving.wait)
        reading.cancel()


async def _read_on(consumer: Consumer, said: Said) -> None:
    async for record in consumer:
        said.read(record.partition, record.offset)


def _producer(asked: Mapping[str, Any], _said: Said, leaving: threading.Event) -> None:
    """Produce a record to each partition in each interval, each in a separate batch."""
    producer = Producer({"bootstrap.servers": asked["bootstrap"], "linger.ms": 0} | _PATIENCE | asked["settings"])
    step, began_s = 0, time.monotonic()
    while not leaving.is_set():
        for partition in range(asked["partitions"]):
            producer.produce(asked["topic"], b"x" * 100, partition=partition)
        step += 1
        while (left_s := began_s + step * asked["interval_s"] - time.monotonic()) > 0:
            producer.poll(left_s)
    producer.flush(5)


KINDS: Mapping[str, Callable[[Mapping[str, Any], Said, threading.Event], None]] = {
    "librdkafka": _librdkafka,
    "sluicegate": _sluicegate,
    "producer": _producer,
}


def main(asked: Mapping[str, Any]) -> None:
    leaving = threading.Event()

    def until_stdin_ends() -> None:
        sys.stdin.read()
        leaving.set()

    threading.Thread(target=until_stdin_ends, daemon=True).start()
    KINDS[asked["kind"]](asked, Said(asked["path"]), leaving)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
