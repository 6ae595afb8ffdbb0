"""The audit topic by librdkafka. Shell; needs confluent-kafka."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, Protocol, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from audit_pipeline.audit_topic import EventRecord, TopicPlace, end_of
from audit_pipeline.errors import BadUseError, StoppedError
from audit_pipeline.segment import Footer

log = logging.getLogger(__name__)

_ANSWER_S = 30.0
_POLL_S = 0.1
_TAKEN = 10_000
UNDER_WAY = 10_000
"""Records that wait for the brokers at most: what is put again, at most, by whoever comes after a kill."""
_UNDER_WAY_KB = 16 * 1024
_BATCH_BYTES = 256 * 1024
"""Before compression. A slow connection has to carry a batch within the time after which it is given up."""
_TELL_S = 10.0
_STOP_S = 2.0


class TopicError(OSError):
    """The brokers do not answer, or refuse a record."""


class TopicReplacedError(TopicError):
    """What was put into the topic is not in it any more: it was made anew."""


class TopicReader:
    """What is in the topic, for a moment: close it. Whoever sets `stopped` does not wait for `ends`."""

    def __init__(self, place: TopicPlace, stopped: Event | None = None) -> None:
        self._place = place
        self._stopped = stopped or Event()
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
        """Of all segments in the topic whose records are not older than that. Raises StoppedError."""
        with self._answers():
            first = self._first_since(since_ms)
            self._consumer.assign(first)
            reading = {each.partition for each in first}
            heard_s = time.monotonic()
            while reading:
                if self._stopped.is_set():
                    raise StoppedError("stopped while it looked for what is in the topic")
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


class RecordProducer(Protocol):
    """confluent_kafka.Producer, as far as it is needed. `produce` raises BufferError when as much waits as may."""

    def produce(
        self, topic: str, value: bytes, key: bytes, *, timestamp: int, on_delivery: Callable[..., None]
    ) -> None: ...

    def poll(self, timeout: float) -> int: ...

    def flush(self, timeout: float) -> int: ...

    def purge(self) -> None: ...


class KafkaEvents:
    """The topic as `publish` needs it: acks=all and idempotence, so that a record is there once and in its place.

    A topic may be as slow as it likes: no more than UNDER_WAY records wait for it, for as long as it takes. When none
    was acknowledged for `timeout_s`, it `gives_up`, or says so and waits on, which repeats nothing. Behind a record
    that the brokers refuse none is put. Then and when `stopped` is set, what waits is forgotten.
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
        """Raises StoppedError."""
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
                    # What has failed before says more of it.
                    self._serve(producer.poll, 0)
                    self._fail(error.args[0])
                    self._raise_failed()
            self._under_way += 1
            self._serve(producer.poll, 0)
        self._raise_failed()

    def flush(self) -> None:
        """Raises StoppedError."""
        while self._producer is not None and self._under_way:
            # Unlike poll it has the client wait for no more records.
            self._wait(self._producer.flush)
        self._raise_failed()

    def _opened(self) -> RecordProducer:
        if self._producer is None:
            self._require_the_same_topic()
            self._producer = self._open_producer(
                {
                    "bootstrap.servers": self._place.bootstrap,
                    "client.id": "sluicegate-audit",
                    "enable.idempotence": True,
                    # Else what comes behind a refused record would be put, and again whenever that one is.
                    "enable.gapless.guarantee": True,
                    "compression.type": "zstd",
                    "linger.ms": 20,
                    "batch.size": _BATCH_BYTES,
                    "queue.buffering.max.messages": UNDER_WAY,
                    "queue.buffering.max.kbytes": _UNDER_WAY_KB,
                    # The client would count the time for which a record waits behind others.
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
        """An idle time before is no one in which the brokers have not answered."""
        if not self._under_way:
            self._heard_s = self._told_s = self._clock()
            self._told = self.acknowledged

    def _wait(self, served: Callable[[float], int]) -> None:
        """For a moment, in which acknowledgements are heard."""
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
                "%s has taken %d records more, %.0f a second; %d wait", self._place.topic, count, per_s, self._under_way
            )
            self._told_s, self._told = now_s, self.acknowledged

    def _raise_stopped(self, now_s: float) -> None:
        """After a moment, in which a segment may come to its end where the topic is not slow."""
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
        # It is not told of a record that was there already when it was sent once more.
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
            # A fatal one, which the client raises wherever it is called next.
            self._fail(error.args[0])

    def _fail(self, error: KafkaError) -> None:
        if self._failed is None:
            place = self._place
            self._failed = TopicError(f"{place.topic} at {place.bootstrap} does not take events: {error.str()}")

    def _replaced(self) -> TopicReplacedError:
        return TopicReplacedError(f"{self._place.topic} at {self._place.bootstrap} was made anew while it was written")

    def _raise_failed(self) -> None:
        if self._failed is not None:
            failed = self._failed
            self._drop()
            raise failed

    def _drop(self) -> None:
        """What waits is forgotten. The client tells of each record that it was, which is no failure."""
        if self._producer is not None:
            self._producer.purge()
            self._serve(self._producer.flush, _POLL_S)
            self._producer = None
        self._under_way = 0
        self._failed = None
