"""Applications that use confluent-kafka's transactions while brokers fail, and remember what they were told.

Each runs in a thread, and records its transactions in a `History`, which `support.transactions.judgement` judges.
"""

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.processes.clients.stuck_calls import ObservedProducer, StuckError
from tests.support.transactions.history import Attempt, End, History, Key, Reading, Seen, Transform

_ABORTS, _CRASHES = 0.2, 0.05
"""Probabilities that an application aborts a transaction, and that it begins again without an end."""
_TIMEOUT_S = 30.0
_GIVES_UP_AFTER_S = 45.0
_OF_A_MOVING_COORDINATOR = (
    KafkaError._TIMED_OUT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_TRANSACTION_TIMEOUT_MS = 8_000
_INPUTS_MAX = 20
_SETTINGS: dict[str, Any] = {
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    "log_level": 0,
}


class _BeginAgain(Exception):  # noqa: N818 - what happened, and usual
    """The producer is fenced or has failed: a new one takes over its transactional id."""


class TransactionalWriter(threading.Thread):
    """Writes transactions of a few records to random partitions until it is stopped."""

    def __init__(self, name: str, transactional_id: str, bootstrap: str, keys: Sequence[Key], history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.stopped = threading.Event()
        self.error: BaseException | None = None
        self.stuck = 0
        """Number of producers that were replaced because librdkafka did not return from a call."""
        self._servers = bootstrap
        self._id = transactional_id
        self._keys = list(keys)
        self._history = history
        self._rng = Random(name)
        self._count = 0

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self._instance()
                self.stopped.wait(self._rng.uniform(0.0, 0.5))
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def _instance(self) -> None:
        producer = ObservedProducer(
            {
                "client.id": self.name,
                "bootstrap.servers": self._servers,
                "transactional.id": self._id,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "linger.ms": 2,
                **_SETTINGS,
            }
        )
        try:
            self._transactions(producer)
        finally:
            producer.close()

    def _transactions(self, producer: ObservedProducer) -> None:
        try:
            _retried(lambda: producer.api.init_transactions(_TIMEOUT_S))
            self._prepare()
            for _ in range(self._rng.randint(3, 40)):
                if self.stopped.is_set() or not self._transaction(producer):
                    return
        except StuckError:
            self.stuck += 1
        except _BeginAgain:
            return

    def _transaction(self, producer: ObservedProducer) -> bool:
        """Run one transaction. Returns False to crash. Raises _BeginAgain."""
        self._count += 1
        attempt = Attempt(f"{self.name}/{self._count}")
        _retried(producer.api.begin_transaction)
        try:
            if not self._fill(producer, attempt):
                self._abort(producer, attempt)
                return True
            if self._rng.random() < _CRASHES:
                return False
            if self._rng.random() < _ABORTS:
                self._abort(producer, attempt)
                return True
            attempt.end = End.COMMIT_ASKED
            _retried(lambda: producer.api.commit_transaction(_TIMEOUT_S))
        except _MustAbort:
            self._abort(producer, attempt)
            return True
        attempt.end = End.COMMITTED
        self._was_committed(attempt)
        return True

    def _abort(self, producer: ObservedProducer, attempt: Attempt) -> None:
        """Abort the transaction. Raises _BeginAgain: then a commit that was asked for may have happened."""
        if attempt.end is End.OPEN:
            attempt.end = End.ABORTED
        try:
            _retried(lambda: producer.api.abort_transaction(_TIMEOUT_S))
        except _MustAbort:
            raise _BeginAgain from None
        attempt.end = End.ABORTED

    def _fill(self, producer: ObservedProducer, attempt: Attempt) -> bool:
        """Write the records of a transaction. Returns False if there are none. Raises _MustAbort and _BeginAgain."""
        self._history.attempts.append(attempt)
        for number in range(self._rng.choice((1, 3, 50))):
            self._write(producer, attempt, f"{attempt.name}:{number}".encode())
        return True

    def _write(self, producer: ObservedProducer, attempt: Attempt, value: bytes) -> None:
        topic, index = key = self._rng.choice(self._keys)
        attempt.outputs.setdefault(key, []).append(value)
        _retried(lambda: producer.api.produce(topic, value, partition=index))
        _retried(lambda: producer.api.poll(0))

    def _prepare(self) -> None:
        """Prepare a new producer."""

    def _was_committed(self, attempt: Attempt) -> None:
        """Go on after a committed transaction."""


class TransactionalTransformer(TransactionalWriter):
    """Consumes committed records of a partition, and writes one record for each, with the offset that follows them."""

    def __init__(self, transform: Transform, bootstrap: str, keys: Sequence[Key], history: History) -> None:
        super().__init__(transform.group, transform.group, bootstrap, keys, history)
        self._transform = transform
        self._at = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": transform.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **_SETTINGS,
            }
        )

    def run(self) -> None:
        super().run()
        self._consumer.close()

    def _prepare(self) -> None:
        self._at = committed_offset(self._consumer, self._transform.source)
        self._transform.committed_offset = self._at
        self._seek()

    def _seek(self) -> None:
        self._consumer.assign([TopicPartition(*self._transform.source, self._at)])

    def _fill(self, producer: ObservedProducer, attempt: Attempt) -> bool:
        messages = [message for message in self._consumer.consume(_INPUTS_MAX, timeout=1.0) if message.error() is None]
        if not messages:
            return False
        self._history.attempts.append(attempt)
        self._transform.attempts.append(attempt)
        offsets = [message.offset() for message in messages]
        attempt.consumed, attempt.next_offset = tuple(offset or 0 for offset in offsets), (offsets[-1] or 0) + 1
        for offset in offsets:
            self._write(producer, attempt, f"{attempt.name}<{offset}".encode())
        place = TopicPartition(*self._transform.source, attempt.next_offset)
        group = self._consumer.consumer_group_metadata()
        _retried(lambda: producer.send_offsets([place], group, _TIMEOUT_S))
        return True

    def _abort(self, producer: ObservedProducer, attempt: Attempt) -> None:
        super()._abort(producer, attempt)
        self._seek()

    def _was_committed(self, attempt: Attempt) -> None:
        self._at = attempt.next_offset


class PartitionFollower(threading.Thread):
    """Reads a partition from its beginning with an isolation level until it is stopped and at the end."""

    def __init__(self, reading: Reading, bootstrap: str) -> None:
        super().__init__(name=reading.name, daemon=True)
        self.reading = reading
        self.stopped = threading.Event()
        self.error: BaseException | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed" if reading.is_committed_only else "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                **_SETTINGS,
            }
        )

    def run(self) -> None:
        reading, is_at_end = self.reading, False
        try:
            self._consumer.assign([TopicPartition(*reading.key, 0)])
            while not (self.stopped.is_set() and is_at_end):
                message = self._consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                is_at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
                if error is not None and not is_at_end:
                    if error.code() == KafkaError._AUTO_OFFSET_RESET:
                        raise KafkaException(error)
                    continue
                offset = message.offset()
                assert offset is not None
                if is_at_end:
                    reading.position = max(reading.position, offset)
                else:
                    reading.seen.append(Seen(offset, message.value() or b""))
                    reading.position = offset + 1
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error
        finally:
            self._consumer.close()


class _MustAbort(Exception):  # noqa: N818 - what happened, and usual
    """The transaction can only be aborted."""


def _retried(call: Any) -> None:
    """Call a function of a transactional producer until it is done. Raises _MustAbort and _BeginAgain.

    A producer that does not get on for _GIVES_UP_AFTER_S is replaced, as an application would do.
    """
    end_s = time.monotonic() + _GIVES_UP_AFTER_S
    while True:
        try:
            call()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if error.retriable() and time.monotonic() < end_s:
                continue
            if error.retriable():
                raise _BeginAgain from None
            if error.txn_requires_abort():
                raise _MustAbort from None
            if error.fatal() or error.code() in (KafkaError._FENCED, KafkaError._TIMED_OUT, KafkaError._STATE):
                raise _BeginAgain from None
            raise
        else:
            return


def committed_offset(consumer: Consumer, key: Key) -> int:
    """Return the committed offset of the consumer's group once no transaction commits one; 0 without one."""
    while True:
        try:
            (found,) = consumer.committed([TopicPartition(*key)], _TIMEOUT_S)
        except KafkaException as raised:
            if raised.args[0].retriable() or raised.args[0].code() in _OF_A_MOVING_COORDINATOR:
                continue
            raise
        return max(int(found.offset), 0)
