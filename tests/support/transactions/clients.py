"""Transactional producers of real clients behind one interface, and readers by isolation level.

All calls block, also those of aiokafka, which runs on an event loop of its own.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from tests.support.processes.clients.broker_admin import PAUSE_S
from tests.support.processes.clients.stuck_calls import ObservedProducer, StuckError

TIMEOUT_S = 60.0
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
_WITHOUT_LEADER = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
Offsets = Mapping[tuple[str, int], int]
"""The offset of the next record to read, by topic and partition."""


class FencedError(Exception):
    """The producer is of no use any more: usually another one has taken over the transactional id."""


class Transactional(Protocol):
    """A producer with a transactional id. Each method raises FencedError if another producer has the id now."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Iterable[str]) -> None:
        """Send the values to partition 0 of the topic, and wait until they are acknowledged."""
        ...

    def send_offsets(self, offsets: Offsets, consumer: Consumer, group: str) -> None:
        """Commit the offsets of the group in the transaction. `consumer` is a member of the group."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentProducer:
    """A producer of confluent-kafka."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
        self._observed = ObservedProducer(settings)
        self._producer = self._observed.api
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Iterable[str]) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=0)
        self._call(self._producer.flush, TIMEOUT_S)

    def send_offsets(self, offsets: Offsets, consumer: Consumer, group: str) -> None:
        partitions = [TopicPartition(*at, offset) for at, offset in offsets.items()]
        metadata = consumer.consumer_group_metadata()
        self._call(self._observed.send_offsets, partitions, metadata, TIMEOUT_S)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, TIMEOUT_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, TIMEOUT_S)

    def close(self) -> None:
        """Do nothing: the producer ends with this object."""

    def _call(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except KafkaException as error:
            if error.args[0].fatal():
                raise FencedError(str(error)) from error
            raise
        except StuckError as error:
            raise FencedError("librdkafka does not return from a call") from error


class KafkaPythonProducer:
    """A producer of kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Iterable[str]) -> None:
        sent = [self._producer.send(topic, value.encode(), partition=0) for value in values]
        self._call(lambda: [each.get(TIMEOUT_S) for each in sent])

    def send_offsets(self, offsets: Offsets, consumer: Consumer, group: str) -> None:
        named = {PythonPartition(*at): OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()}
        self._call(lambda: self._producer.send_offsets_to_transaction(named, group))

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)

    def _call(self, call: Any) -> None:
        try:
            call()
        except (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError) as error:
            raise FencedError(str(error)) from error


class AioKafkaProducer:
    """A producer of aiokafka, which sends version 0 of most requests."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._runner = asyncio.Runner()
        self._producer: Any = None
        self._call(self._start(bootstrap, transactional_id, timeout_ms))

    async def _start(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await self._producer.start()

    def begin(self) -> None:
        self._call(self._producer.begin_transaction())

    def send(self, topic: str, values: Iterable[str]) -> None:
        self._call(self._send(topic, values))

    async def _send(self, topic: str, values: Iterable[str]) -> None:
        sent = [await self._producer.send(topic, value.encode(), partition=0) for value in values]
        await asyncio.gather(*sent)

    def send_offsets(self, offsets: Offsets, consumer: Consumer, group: str) -> None:
        named = {AioPartition(*at): offset for at, offset in offsets.items()}
        self._call(self._producer.send_offsets_to_transaction(named, group))

    def commit(self) -> None:
        self._call(self._producer.commit_transaction())

    def abort(self) -> None:
        self._call(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            self._call(self._producer.stop())
        except FencedError:
            pass
        finally:
            self._runner.close()

    def _call(self, work: Any) -> None:
        try:
            self._runner.run(asyncio.wait_for(work, TIMEOUT_S))
        except aiokafka.errors.ProducerFenced as error:
            raise FencedError(str(error)) from error


PRODUCERS: Mapping[str, type[ConfluentProducer] | type[KafkaPythonProducer] | type[AioKafkaProducer]] = {
    "confluent-kafka": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AioKafkaProducer,
}


def end_offset(bootstrap: str, topic: str, isolation: str) -> int:
    """The end of partition 0 that a consumer of this isolation level sees.

    A broker that does not lead the partition yet is asked again: the answer to CreateTopics does not wait for leaders.
    """
    level = confluent_kafka.IsolationLevel[isolation.upper()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = TopicPartition(topic, 0)
    deadline, pause = time.monotonic() + TIMEOUT_S, threading.Event()
    while True:
        asked = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=level, request_timeout=30)
        try:
            return int(asked[partition].result(TIMEOUT_S).offset)
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_LEADER or time.monotonic() > deadline:
                raise
        pause.wait(PAUSE_S)


def read_all(bootstrap: str, topic: str, isolation: str) -> list[str]:
    """The values of partition 0 that a consumer of this isolation level gets up to the end that it sees now."""
    end = end_offset(bootstrap, topic, isolation)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    ended = end == 0
    while not ended:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{topic} ended before offset {end}"
        error = message.error()
        if error is None:
            found.append((message.value() or b"").decode())
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended = True
    consumer.close()
    return found
