"""One process: a producer and two consumers of a push group that reads all topics whose names begin with `parcels-`.

    python -m demo.parcels BOOTSTRAP RESULT_FILE

At SIGTERM it stops producing, waits until every acknowledged message has been read, and writes down what was read when,
whatever happened to brokers in between.
"""

import asyncio
import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from sluicegate_consumer import Consumer, Listener, Settings, TopicPartition

GROUP = "parcel-desk"
PATTERN = "parcels-.*"
TOPICS = {"parcels-near": 3, "parcels-far": 3}
"""Number of partitions by topic."""
CONSUMERS = ("desk-a", "desk-b")
MESSAGES_PER_SECOND = 200
CATCH_UP_S = 15.0

Place = tuple[str, int, int]
"""A topic, a partition and an offset."""


@dataclass(slots=True)
class Record:
    """Messages produced and read, starts of consumers, and failures, by the wall clock."""

    acknowledged: set[Place] = field(default_factory=set)
    read: Counter[Place] = field(default_factory=Counter)
    reads: list[tuple[float, str]] = field(default_factory=list)
    """First read of each record: its time and its partition."""
    starts: list[tuple[float, str, int]] = field(default_factory=list)
    """Starts of consumers by the coordinator: the time, the consumer, and its number of partitions."""
    failures: list[str] = field(default_factory=list)

    def missing(self) -> int:
        return len(self.acknowledged - self.read.keys())


class _Starts(Listener):
    def __init__(self, name: str, record: Record) -> None:
        self._name, self._record = name, record

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._record.starts.append((time.time(), self._name, len(partitions)))


async def main(bootstrap: str) -> Record:
    record, stop, produced = Record(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # The terminal's Ctrl-C is for the demo, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def produce() -> None:
        _produce(bootstrap, record, stop)
        loop.call_soon_threadsafe(produced.set)

    consumers = [
        Consumer(bootstrap, GROUP, pattern=PATTERN, listener=_Starts(name, record), settings=Settings(consumer_id=name))
        for name in CONSUMERS
    ]
    for consumer in consumers:
        await consumer.start()
    reading = [asyncio.create_task(_read(consumer, record)) for consumer in consumers]
    producer = threading.Thread(target=produce)
    producer.start()
    await produced.wait()
    producer.join()
    await _catch_up(record)
    await asyncio.gather(*(consumer.close() for consumer in consumers))
    await asyncio.gather(*reading)
    return record


async def _catch_up(record: Record) -> None:
    """Wait until every acknowledged message has been read, for at most CATCH_UP_S."""
    deadline_s = time.monotonic() + CATCH_UP_S
    while True:
        if not record.missing() or time.monotonic() > deadline_s:
            return
        await asyncio.sleep(0.05)


def as_json(record: Record) -> str:
    return json.dumps(
        {
            "acknowledged": len(record.acknowledged),
            "missing": record.missing(),
            "repeated": sum(times - 1 for times in record.read.values()),
            "reads": record.reads,
            "starts": record.starts,
            "failures": record.failures,
        }
    )


async def _read(consumer: Consumer, record: Record) -> None:
    async for each in consumer:
        place = each.topic, each.partition, each.offset
        if place not in record.read:
            record.reads.append((time.time(), f"{each.topic}-{each.partition}"))
        record.read[place] += 1
        each.acknowledge()


def _produce(bootstrap: str, record: Record, stop: threading.Event) -> None:
    """Produce one message to each partition in turn, at a steady pace."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 0,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }
    producer = Producer(settings)
    places = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            record.failures.append(str(error))
        else:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            record.acknowledged.add((topic, partition, offset))

    sent = 0
    while not stop.wait(1 / MESSAGES_PER_SECOND):
        topic, partition = places[sent % len(places)]
        producer.produce(topic, b"parcel", partition=partition, on_delivery=delivered)
        producer.poll(0)
        sent += 1
    if unsent := producer.flush(CATCH_UP_S):
        record.failures.append(f"{unsent} messages were never acknowledged")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(as_json(asyncio.run(main(sys.argv[1]))))
