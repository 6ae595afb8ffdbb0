"""Producers of three clients that send all the time, each in a thread: what was acknowledged, and what went wrong.

Credentials change under them. `said` are the texts of errors: of records, of callbacks, and of the client's own log.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import KafkaError

PAUSE_S = 0.02
_SAID_MAX = 500


class Sender(logging.Handler):
    """Sends numbered records to partition 0 of one topic until its end. `settings` are the client's own."""

    logger_name = ""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        super().__init__(logging.WARNING)
        self.settings = dict(settings)
        self.topic = topic
        self.acknowledged: dict[int, bytes] = {}
        self.said: deque[str] = deque(maxlen=_SAID_MAX)
        self.last_s = time.monotonic()
        """Time of the last acknowledgement."""
        self.over = threading.Event()
        self._number = 0
        self._thread = threading.Thread(target=self.run, name=f"sender-{topic}")

    def run(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        logging.getLogger(self.logger_name).addHandler(self)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.over.set()
        self._thread.join()
        logging.getLogger(self.logger_name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    def taken(self, offset: int, value: bytes) -> None:
        self.acknowledged[offset] = value
        self.last_s = time.monotonic()

    def failed(self, error: object) -> None:
        self.said.append(f"{type(error).__name__}: {error}")

    def was_told(self, text: str) -> bool:
        return not text or any(text in line for line in list(self.said))

    def is_refused(self, for_s: float = 1.0) -> bool:
        """Whether nothing has been acknowledged for so long."""
        return time.monotonic() - self.last_s > for_s


class ConfluentSender(Sender):
    logger_name = "confluent"

    def run(self) -> None:
        usual: dict[str, Any] = {"acks": "all", "message.timeout.ms": 3_000, "reconnect.backoff.max.ms": 500}
        usual |= {"error_cb": self.failed, "log_level": 2, "topic.metadata.refresh.interval.ms": 500}
        producer = Producer(usual | self.settings)
        number = 0
        while not self.over.is_set():
            try:
                producer.produce(self.topic, b"%d" % number, partition=0, on_delivery=self._delivered)
            except KafkaException as error:
                self.failed(error)
            number += 1
            producer.poll(PAUSE_S)
        producer.flush(10)

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.taken(message.offset(), message.value())
        else:
            self.failed(error)


class KafkaPythonSender(Sender):
    """A refused credential or permission ends its producer for good, so that it takes another, as its users must."""

    logger_name = "kafka"

    def run(self) -> None:
        usual: dict[str, Any] = {"acks": "all", "request_timeout_ms": 3_000, "delivery_timeout_ms": 4_000}
        usual |= {"max_block_ms": 2_000, "reconnect_backoff_max_ms": 500, "metadata_max_age_ms": 500}
        while not self.over.is_set():
            try:
                producer = KafkaProducer(**usual, **self.settings)
            except KafkaError as error:
                self.failed(error)
            else:
                self._send(producer)
                producer.close(30)
            self.over.wait(PAUSE_S)

    def _send(self, producer: KafkaProducer) -> None:
        """Send until the end, or until something fails."""
        failures: list[object] = []
        while not self.over.is_set() and not failures:
            value = b"%d" % self._number
            self._number += 1
            try:
                sent = producer.send(self.topic, value, partition=0)
            except KafkaError as error:
                failures.append(error)
            else:
                sent.add_callback(lambda found, value=value: self.taken(found.offset, value))
                sent.add_errback(failures.append)
            self.over.wait(PAUSE_S)
        for failure in failures:
            self.failed(failure)


class AiokafkaSender(Sender):
    logger_name = "aiokafka"

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        usual: dict[str, Any] = {"acks": "all", "request_timeout_ms": 3_000, "retry_backoff_ms": 200}
        producer = AIOKafkaProducer(**usual, metadata_max_age_ms=500, **self.settings)
        number = 0
        await producer.start()
        try:
            while not self.over.is_set():
                value = b"%d" % number
                number += 1
                try:
                    found = await producer.send_and_wait(self.topic, value, partition=0)
                except Exception as error:  # noqa: BLE001 - what the client raises is what is observed
                    self.failed(error)
                else:
                    self.taken(found.offset, value)
                await asyncio.sleep(PAUSE_S)
        finally:
            await producer.stop()


SENDERS: Mapping[str, type[Sender]] = {
    "confluent-kafka": ConfluentSender,
    "kafka-python": KafkaPythonSender,
    "aiokafka": AiokafkaSender,
}

of_each_client = pytest.mark.parametrize(
    "client", [pytest.param(name, marks=() if name == "confluent-kafka" else pytest.mark.full) for name in SENDERS]
)
"""Makes a test of each client; `make test` runs the first, and `make test-all` all of them."""


def lost(sender: Sender, bootstrap: str) -> Mapping[int, bytes]:
    """The acknowledged records that are not at their offsets, read over a listener without authentication."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    place = TopicPartition(sender.topic, 0, 0)
    found: dict[int, bytes] = {}
    try:
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        deadline = time.monotonic() + 60
        while len(found) < end:
            assert time.monotonic() < deadline, f"read {len(found)} of {end}"
            for message in consumer.consume(1_000, timeout=1.0):
                assert message.error() is None
                found[message.offset()] = message.value()
    finally:
        consumer.close()
    return {offset: value for offset, value in sender.acknowledged.items() if found.get(offset) != value}
