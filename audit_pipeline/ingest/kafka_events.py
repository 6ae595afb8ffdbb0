"""The audit topic through librdkafka. Shell; needs confluent-kafka."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, Protocol, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from audit_pipeline.errors import BadUseError, StoppedError
from audit_pipeline.ingest.audit_topic import EventRecord, TopicPlace, end_of
from audit_pipeline.spool.segment import Footer

log = logging.getLogger(__name__)

_ANSWER_S = 30.0
_POLL_S = 0.1
_TAKEN = 10_000
UNDER_WAY = 10_000
"""Maximum number of unacknowledged records. They are also the records that are put again after a kill."""
_UNDER_WAY_KB = 16 * 1024
_BATCH_BYTES = 256 * 1024
"""Size before compression. A slow connection has to transfer a batch before it times out."""
_TELL_S = 10.0
_STOP_S = 2.0


class TopicError(OSError):
    """The brokers of the audit topic do not answer, or reject a record."""


class TopicReplacedError(TopicError):
    """Error for a topic that was deleted and created again: the records put into it are lost."""


class TopicReader:
    """A reader of the audit topic for a short time; the caller closes it. Setting `stopped` interrupts `ends`."""

    def __init__(self, place: TopicPlace, stopped: Event | None = None) -> None:
        self._place = place
        self._stopped = stopped or Event()
        self._consumer = Consumer(
            {
                **place.client.librdkafka,
                "bootstrap.servers": place.bootstrap,
                "client.id": "sluicegate-audit",
                # The library requires a group; nothing is committed and no member joins.
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
        """Return, by partition, the first offset and the offset after the last."""
        with self._answers():
            return {
                each.partition: self._consumer.get_watermark_offsets(each, timeout=_ANSWER_S)
                for each in self._partitions()
            }

    def since(self, ms: int) -> dict[int, int]:
        """Return, by partition, an offset before which all records are older than `ms`; negative if all records are."""
        with self._answers():
            return {each.partition: each.offset for each in self._first_since(ms)}

    def ends(self, since_ms: int) -> Iterator[Footer]:
        """Yield the ends of all segments whose records are not older than `since_ms`. Raises StoppedError."""
        with self._answers():
            first = self._first_since(since_ms)
            self._consumer.assign(first)
            reading = {each.partition for each in first}
            heard_s = time.monotonic()
            while reading:
                if self._stopped.is_set():
                    raise StoppedError("stopped while reading the ends of the topic")
                # `consume` waits until it has as many messages as requested.
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
                f"topic {topic} does not exist at {self._place.bootstrap} ({found.error.str()}): create it, and "
                "set audit.topic of the audit log to it, so that it is not audited itself"
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


class RecordProducer(Protocol):
    """The used part of confluent_kafka.Producer. `produce` raises BufferError when the queue is full."""

    def produce(
        self, topic: str, value: bytes, key: bytes, *, timestamp: int, on_delivery: Callable[..., None]
    ) -> None: ...

    def poll(self, timeout: float) -> int: ...

    def flush(self, timeout: float) -> int: ...

    def purge(self) -> None: ...


class KafkaEvents:
    """The audit topic for `publish`, written with acks=all and idempotence: each record is there once and in order.

    The topic may be slow: at most UNDER_WAY records wait for it, without a limit of time. If no record was acknowledged
    for `timeout_s`, it either `gives_up`, or logs that and continues to wait, which repeats nothing. No record is put
    after one that the brokers reject. Then, and when `stopped` is set, waiting records are discarded.
    """

    def __init__(
        self,
        place: TopicPlace,
        stopped: Event | None = None,
        *,
        timeout_s: float = _ANSWER_S,
        gives_up: bool = True,
        open_producer: Callable[[dict[str, Any]], RecordProducer] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.acknowledged = 0
        self._place = place
        self._stopped = stopped or Event()
        self._timeout_s = timeout_s
        self._gives_up = gives_up
        self._open_producer = open_producer or (lambda config: Producer(config, logger=log))
        self._clock = clock
        self._producer: RecordProducer | None = None
        self._under_way = 0
        self._failed: TopicError | None = None
        self._last_offsets: dict[int, int] = {}
        self._heard_s = 0.0
        self._told_s, self._told = 0.0, 0
        self._stopped_s: float | None = None

    def ends(self, since_ms: int) -> Iterator[Footer]:
        with TopicReader(self._place, self._stopped) as reader:
            yield from reader.ends(since_ms)

    def put(self, records: Iterable[EventRecord]) -> None:
        """Give records to the producer; wait while its queue is full. Raises StoppedError."""
        producer = self._opened()
        for key, value, timestamp_ms in records:
            self._begin_to_wait()
            while True:
                try:
                    producer.produce(self._place.topic, value, key, timestamp=timestamp_ms, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._wait(producer.poll)
                except KafkaException as error:
                    # An earlier failure is more specific.
                    self._serve(producer.poll, 0)
                    self._fail(error.args[0])
                    self._raise_failed()
            self._under_way += 1
            self._serve(producer.poll, 0)
        self._raise_failed()

    def flush(self) -> None:
        """Wait until the brokers have acknowledged all records of audit events. Raises StoppedError."""
        while self._producer is not None and self._under_way:
            # Unlike poll, flush does not let the client wait for more records.
            self._wait(self._producer.flush)
        self._raise_failed()

    def _opened(self) -> RecordProducer:
        if self._producer is None:
            self._require_the_same_topic()
            self._producer = self._open_producer(
                {
                    **self._place.client.librdkafka,
                    "bootstrap.servers": self._place.bootstrap,
                    "client.id": "sluicegate-audit",
                    "enable.idempotence": True,
                    # By default records after a rejected one would be put, and put again with each retry.
                    "enable.gapless.guarantee": True,
                    "compression.type": "zstd",
                    "linger.ms": 20,
                    "batch.size": _BATCH_BYTES,
                    "queue.buffering.max.messages": UNDER_WAY,
                    "queue.buffering.max.kbytes": _UNDER_WAY_KB,
                    # The client would count the time in which a record waits behind others.
                    "message.timeout.ms": 0,
                    "log_level": 3,
                }
            )
        return self._producer

    def _require_the_same_topic(self) -> None:
        if not self._last_offsets:
            return
        with TopicReader(self._place) as reader:
            bounds = reader.bounds()
        if any(last >= bounds.get(partition, (0, 0))[1] for partition, last in self._last_offsets.items()):
            self._last_offsets = {}
            raise self._replaced()

    def _begin_to_wait(self) -> None:
        """Restart the timeout: idle time before does not count as silence of the brokers."""
        if not self._under_way:
            self._heard_s = self._told_s = self._clock()
            self._told = self.acknowledged

    def _wait(self, served: Callable[[float], int]) -> None:
        """Wait for a moment and process acknowledgements."""
        self._serve(served, _POLL_S)
        self._raise_failed()
        now_s = self._clock()
        self._raise_stopped(now_s)
        if now_s - self._heard_s > self._timeout_s:
            silent = (
                f"{self._place.bootstrap} has acknowledged none of {self._under_way} records for {self._timeout_s:g} s"
            )
            if self._gives_up:
                self._drop()
                raise TopicError(silent)
            log.error("%s: waiting on", silent)
            self._heard_s = self._told_s = now_s
        elif now_s - self._told_s >= _TELL_S:
            count = self.acknowledged - self._told
            per_s = count / (now_s - self._told_s)
            log.info(
                "%s has acknowledged %d more records, %.0f a second; %d wait",
                self._place.topic,
                count,
                per_s,
                self._under_way,
            )
            self._told_s, self._told = now_s, self.acknowledged

    def _raise_stopped(self, now_s: float) -> None:
        """Raise StoppedError after a short delay, in which a segment may still complete if the topic is fast."""
        if not self._stopped.is_set():
            return
        if self._stopped_s is None:
            self._stopped_s = now_s
        if now_s - self._stopped_s >= _STOP_S:
            left = self._under_way
            self._drop()
            raise StoppedError(f"stopped while {left} records waited for {self._place.bootstrap}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._under_way -= 1
        if error is not None:
            self._fail(error)
        if self._failed is not None:
            return
        partition, offset = message.partition(), message.offset()
        # There is no offset for a record that was there already when it was sent again.
        if offset is not None and offset >= 0:
            if offset <= self._last_offsets.get(partition, -1):
                self._last_offsets = {}
                self._failed = self._replaced()
                return
            self._last_offsets[partition] = offset
        self.acknowledged += 1
        self._heard_s = self._clock()

    def _serve(self, served: Callable[[float], int], timeout_s: float) -> None:
        try:
            served(timeout_s)
        except KafkaException as error:
            # A fatal error, which the client raises in any later call.
            self._fail(error.args[0])

    def _fail(self, error: KafkaError) -> None:
        if self._failed is None:
            place = self._place
            self._failed = TopicError(f"{place.topic} at {place.bootstrap} does not accept events: {error.str()}")

    def _replaced(self) -> TopicReplacedError:
        return TopicReplacedError(
            f"{self._place.topic} at {self._place.bootstrap} was deleted and created again during the writing"
        )

    def _raise_failed(self) -> None:
        if self._failed is not None:
            failed = self._failed
            self._drop()
            raise failed

    def _drop(self) -> None:
        """Discard waiting records. The client reports each of them as purged, which does not count as a failure."""
        if self._producer is not None:
            self._producer.purge()
            self._serve(self._producer.flush, _POLL_S)
            self._producer = None
        self._under_way = 0
        self._failed = None
