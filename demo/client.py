"""The well-behaved client, a separate process: produces at a steady pace, consumes every message, records each latency.

    python -m demo.client BOOTSTRAP TOPIC BROKER RESULT_FILE

It connects once, and produces to the partitions that the given broker leads. At SIGTERM it waits until every
acknowledged message has been consumed, and writes the result file.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaError, Message, Producer

MESSAGES_PER_SECOND = 200
PAYLOAD = b"x" * 200
CATCH_UP_S = 15.0

Place = tuple[int, int]
"""A partition and an offset."""


@dataclass(slots=True)
class Record:
    """The measurements of the demo's client: latencies, messages and failures.

    `samples` are (wall clock when produced, milliseconds until acknowledged).
    """

    samples: list[tuple[float, float]] = field(default_factory=list)
    acknowledged: set[Place] = field(default_factory=set)
    consumed: set[Place] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


def main(bootstrap: str, topic: str, broker: int, result: Path) -> None:
    stop, everything_read = threading.Event(), threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    # The terminal's Ctrl-C is for the demo, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    record = Record()
    reader = threading.Thread(target=_consume, args=(bootstrap, topic, record, everything_read))
    reader.start()
    _produce(bootstrap, topic, broker, record, stop)
    deadline_s = time.monotonic() + CATCH_UP_S
    while record.acknowledged - record.consumed and time.monotonic() < deadline_s:
        everything_read.wait(0.05)
    everything_read.set()
    reader.join()
    missing = len(record.acknowledged - record.consumed)
    result.write_text(
        json.dumps(
            {
                "samples": record.samples,
                "acknowledged": len(record.acknowledged),
                "consumed": len(record.consumed),
                "missing": missing,
                "failures": record.failures,
            }
        )
    )


def _produce(bootstrap: str, topic: str, broker: int, record: Record, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "client.id": "demo"})
    metadata = producer.list_topics(topic, timeout=10).topics[topic].partitions
    partitions = sorted(partition for partition, view in metadata.items() if view.leader == broker)
    sent, next_s = 0, time.perf_counter()
    while not stop.is_set():
        on_delivery = _delivery(record, time.time(), time.perf_counter())
        producer.produce(topic, PAYLOAD, partition=partitions[sent % len(partitions)], on_delivery=on_delivery)
        sent += 1
        # A late loop does not hurry to catch up: the client keeps its pace, not a schedule.
        next_s = max(next_s + 1 / MESSAGES_PER_SECOND, time.perf_counter())
        while (left_s := next_s - time.perf_counter()) > 0:
            producer.poll(left_s)
    if unsent := producer.flush(CATCH_UP_S):
        record.failures.append(f"{unsent} messages were never acknowledged")


def _delivery(record: Record, wall_s: float, began_s: float) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            record.failures.append(str(error))
            return
        record.samples.append((wall_s, (time.perf_counter() - began_s) * 1000))
        record.acknowledged.add((message.partition(), message.offset()))

    return delivered


def _consume(bootstrap: str, topic: str, record: Record, stop: threading.Event) -> None:
    """Consume as a member of a group, with the client's default settings except for the start offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            record.consumed.add((message.partition(), message.offset()))
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
