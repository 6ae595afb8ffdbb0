"""One member of a consumer group as a separate process, which tests may kill: FAMILY BOOTSTRAP GROUP TOPIC.

It prints what it reads and what was committed on its standard output, a line each: `read PARTITION OFFSET VALUE`,
`committed PARTITION OFFSET`, `error TEXT`, `left`. It prints records before it commits them, like a consumer that must
not miss records. On SIGTERM it leaves the group.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

SESSION_TIMEOUT_MS = 6_000
"""The smallest that brokers accept by default."""
HEARTBEAT_MS = 500
METADATA_MS = 500
POLL_S = 0.2
_leaving = False


def say(lines: Iterable[str]) -> None:
    """Write all lines at once: a process that is then killed has printed all that it has committed."""
    text = "".join(f"{line}\n" for line in lines).encode()
    while text:
        text = text[os.write(1, text) :]


def _leave(number: int, frame: object) -> None:
    del number, frame
    global _leaving
    _leaving = True


def with_confluent(bootstrap: str, group: str, topic: str, settings: Mapping[str, object]) -> None:
    # Each process imports its own client only: importing all three takes longer than joining.
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    base = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": METADATA_MS,
        "reconnect.backoff.max.ms": 500,
        "log_level": 2,
    }
    consumer = Consumer(base | dict(settings))
    consumer.subscribe([topic])
    while not _leaving:
        messages = consumer.consume(500, timeout=POLL_S)
        errors = [message.error() for message in messages if message.error() is not None]
        say(f"error {error}" for error in errors)
        read = [message for message in messages if message.error() is None]
        if not read:
            continue
        say(f"read {each.partition()} {each.offset()} {each.value().decode()}" for each in read)
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as error:
            say([f"error {error}"])
        else:
            say(f"committed {each.partition} {each.offset}" for each in done if each.error is None and each.offset >= 0)
    consumer.close()


def confluent_classic(bootstrap: str, group: str, topic: str) -> None:
    timers = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    with_confluent(bootstrap, group, topic, {"partition.assignment.strategy": "cooperative-sticky", **timers})


def confluent_consumer(bootstrap: str, group: str, topic: str) -> None:
    with_confluent(bootstrap, group, topic, {"group.protocol": "consumer"})


def kafka_python(bootstrap: str, group: str, topic: str) -> None:
    from kafka import KafkaConsumer  # noqa: PLC0415
    from kafka.errors import KafkaError  # noqa: PLC0415

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MS,
        reconnect_backoff_max_ms=500,
        request_timeout_ms=10_000,
    )
    while not _leaving:
        try:
            found = consumer.poll(int(POLL_S * 1000))
            if not found:
                continue
            say(f"read {part.partition} {each.offset} {each.value.decode()}" for part in found for each in found[part])
            ends = {part: records[-1].offset + 1 for part, records in found.items()}
            consumer.commit()
        except KafkaError as error:
            say([f"error {error!r}"])
        else:
            say(f"committed {part.partition} {end}" for part, end in ends.items())
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str) -> None:
    asyncio.run(_aiokafka(bootstrap, group, topic))


async def _aiokafka(bootstrap: str, group: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415
    from aiokafka.errors import KafkaError  # noqa: PLC0415

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MS,
        request_timeout_ms=10_000,
    )
    await consumer.start()
    while not _leaving:
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        if not found:
            continue
        say(f"read {part.partition} {each.offset} {each.value.decode()}" for part in found for each in found[part])
        ends = {part: records[-1].offset + 1 for part, records in found.items()}
        try:
            await consumer.commit(ends)
        except KafkaError as error:
            say([f"error {error!r}"])
        else:
            say(f"committed {part.partition} {end}" for part, end in ends.items())
    await consumer.stop()


FAMILIES: Mapping[str, Callable[[str, str, str], Any]] = {
    "confluent-classic": confluent_classic,
    "confluent-consumer": confluent_consumer,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    family, bootstrap, group, topic = sys.argv[1:]
    FAMILIES[family](bootstrap, group, topic)
    say(["left"])


if __name__ == "__main__":
    main()
