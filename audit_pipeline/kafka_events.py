"""The audit topic by librdkafka. Shell; needs confluent-kafka."""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from audit_pipeline.audit_topic import EventRecord, TopicPlace, end_of
from audit_pipeline.errors import BadUseError
from audit_pipeline.segment import Footer

log = logging.getLogger(__name__)

_ANSWER_S = 30.0
_POLL_S = 0.1
_TAKEN = 10_000
_QUEUED = 100_000
_QUEUED_KB = 64 * 1024


class TopicError(OSError):
    """The brokers do not answer, or refuse a record."""


class TopicReader:
    """What is in the topic, for a moment: close it."""

    def __init__(self, place: TopicPlace) -> None:
        self._place = place
        self._consumer = Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "client.id": "sluicegate-audit",
                # The library wants one; nothing is committed and nobody joins.
                "group.id": "sluicegate-audit",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 3,
            },
            logger=log,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self) -> dict[int, tuple[int, int]]:
        """By partition the first offset that is there, and the one after the last."""
        with self._answers():
            return {
                each.partition: self._consumer.get_watermark_offsets(each, timeout=_ANSWER_S)
                for each in self._partitions()
            }

    def since(self, ms: int) -> dict[int, int]:
        """By partition an offset before which all records are older; less than 0 where all are."""
        with self._answers():
            return {each.partition: each.offset for each in self._first_since(ms)}

    def ends(self, since_ms: int) -> Iterator[Footer]:
        """Of all segments in the topic whose records are not older than that."""
        with self._answers():
            first = self._first_since(since_ms)
            self._consumer.assign(first)
            reading = {each.partition for each in first}
            heard_s = time.monotonic()
            while reading:
                # It waits for as many as it is asked for.
                messages = self._consumer.consume(_TAKEN, timeout=_POLL_S)
                if messages:
                    heard_s = time.monotonic()
                elif time.monotonic() - heard_s > _ANSWER_S:
                    raise TopicError(f"{self._place.bootstrap} has not answered for {_ANSWER_S:g} s")
                for message in messages:
                    error = message.error()
                    if error is None:
                        yield from _end(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        reading.discard(message.partition())
                    else:
                        raise KafkaException(error)

    def _partitions(self) -> list[TopicPartition]:
        topic = self._place.topic
        found = self._consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        if found.error is not None:
            raise BadUseError(
                f"there is no topic {topic} at {self._place.bootstrap} ({found.error.str()}): create it, "
                "and name it in audit.topic of the audit log, so that it is not audited itself"
            )
        return [TopicPartition(topic, partition) for partition in sorted(found.partitions)]

    def _first_since(self, ms: int) -> list[TopicPartition]:
        asked = [TopicPartition(each.topic, each.partition, ms) for each in self._partitions()]
        found: list[TopicPartition] = self._consumer.offsets_for_times(asked, timeout=_ANSWER_S)
        return found

    @contextmanager
    def _answers(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            place = self._place
            raise TopicError(f"{place.topic} at {place.bootstrap} cannot be read: {error.args[0].str()}") from error


def _end(message: Message) -> Iterator[Footer]:
    try:
        footer = end_of(message.value())
    except ValueError as error:
        log.warning("partition %s, offset %s: %s", message.partition(), message.offset(), error)
        return
    if footer is not None:
        yield footer


class KafkaEvents:
    """The topic as `publish` needs it: acks=all and idempotence, so that a record is there once and in its place."""

    def __init__(self, place: TopicPlace) -> None:
        self._place = place
        self._producer = Producer(
            {
                "bootstrap.servers": place.bootstrap,
                "client.id": "sluicegate-audit",
                "enable.idempotence": True,
                "compression.type": "zstd",
                "linger.ms": 20,
                "queue.buffering.max.messages": _QUEUED,
                "queue.buffering.max.kbytes": _QUEUED_KB,
                "message.timeout.ms": int(_ANSWER_S * 1000),
                "log_level": 3,
            },
            logger=log,
        )
        self._failed: KafkaError | None = None

    def ends(self, since_ms: int) -> Iterator[Footer]:
        with TopicReader(self._place) as reader:
            yield from reader.ends(since_ms)

    def put(self, records: Iterable[EventRecord]) -> None:
        for key, value, timestamp_ms in records:
            while True:
                try:
                    self._producer.produce(
                        self._place.topic, value, key, timestamp=timestamp_ms, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(_POLL_S)
            self._producer.poll(0)
        self._raise_failed()

    def flush(self) -> None:
        left = self._producer.flush(_ANSWER_S * 2)
        self._raise_failed()
        if left:
            raise TopicError(f"{self._place.bootstrap} has not taken {left} records within {_ANSWER_S * 2:g} s")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._failed = self._failed or error

    def _raise_failed(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise TopicError(f"{self._place.topic} at {self._place.bootstrap} does not take events: {failed.str()}")
