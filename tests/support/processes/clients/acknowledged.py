"""A producer that runs during faults, and the check afterwards: no acknowledged record is lost or repeated.

The producer is confluent-kafka's, idempotent, with acks=all, in a thread. The check reads the topic from its start.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.clients.producer_epochs import fault_in, written_batches

_GROUP = "unused"
"""Group of consumers, which commit nothing. Brokers with ACLs refuse a group that the user has no right to."""
_OPEN: Mapping[str, Any] = MappingProxyType({})
"""Settings of security for a listener without any."""
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
_SETTINGS = {"retry.backoff.ms": 50, "retry.backoff.max.ms": 200, "reconnect.backoff.ms": 20}
_RECONNECT: dict[str, Any] = {
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    # By default, a client that reaches no broker for a moment, as when all brokers have fenced themselves, uses only
    # its bootstrap addresses again. In a roll those are the addresses of deleted pods.
    "metadata.recovery.strategy": "none",
    "log_level": 2,
}


def create_topic(bootstrap: str, topic: str, partitions: int, replicas: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, replicas, config=settings)])[topic].result(60)


class Partitions:
    """Leaders and in-sync sets of a topic's partitions as a client sees them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def _seen(self) -> Any:
        """Metadata of the partitions, read with a new client each time.

        A client that asks a frozen broker would keep asking it.
        """
        deadline = time.monotonic() + 60
        while True:
            admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 2} | _RECONNECT)
            try:
                return admin.list_topics(self._topic, timeout=1).topics[self._topic].partitions
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def leaders(self) -> dict[int, int]:
        return {index: part.leader for index, part in self._seen().items()}

    def isr(self) -> dict[int, set[int]]:
        return {index: set(part.isrs) for index, part in self._seen().items()}

    def all_in_sync(self, replicas: int) -> bool:
        seen = self._seen()
        return all(part.leader >= 0 and len(part.isrs) == replicas for part in seen.values())


class RunningConsumer:
    """A consumer that reads all partitions from the start during faults, and records what no consumer may see."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, security: Mapping[str, Any] = _OPEN, group: str = _GROUP
    ) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                # If records that were read are gone, the consumer would start from scratch: that is an error here.
                "auto.offset.reset": "error",
                "socket.timeout.ms": 4_000,
                "fetch.error.backoff.ms": 50,
            }
            | _RECONNECT
            | dict(security)
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self.seen: dict[int, dict[int, bytes]] = {index: {} for index in range(partitions)}
        self.failures: list[str] = []
        self.errors: deque[str] = deque(maxlen=10)
        self._stop = threading.Event()
        self._credentials: deque[tuple[str, str]] = deque(maxlen=1)
        self._thread = threading.Thread(target=self._run, name="running-consumer")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                while self._credentials:
                    # Another thread would wait forever for the consumer, which is nearly always in `consume`.
                    self._consumer.set_sasl_credentials(*self._credentials.pop())
                for message in self._consumer.consume(1_000, timeout=0.2):
                    self._take(message)
        finally:
            self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self.errors.append(str(error))
            if error.code() in _GONE:
                self.failures.append(str(error))
            return
        seen = self.seen[message.partition()]
        if message.offset() != len(seen):
            self.failures.append(
                f"partition {message.partition()}: offset {message.offset()} after {len(seen)} records"
            )
        seen[message.offset()] = message.value()

    def set_credentials(self, user: str, password: str) -> None:
        """Authenticate with these credentials from now on."""
        self._credentials.append((user, password))

    def standing(self, found: dict[int, dict[int, bytes]]) -> str:
        """Position in each partition and the last errors, to explain why the consumer makes no progress."""
        positions = {index: f"{len(self.seen[index])} of {len(there)}" for index, there in sorted(found.items())}
        return f"read {positions}, last errors {list(self.errors)}, failures {self.failures}"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """End offset of a partition.

    Like consumers, it asks again while the leader is new and its high watermark behind (KIP-207), and when another
    broker has become the leader.
    """
    again = (KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    deadline, pause = time.monotonic() + 60, threading.Event()
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=30)[1])
        except KafkaException as error:
            if error.args[0].code() not in again or time.monotonic() > deadline:
                raise
        pause.wait(0.05)


class AcknowledgedWorkload:
    """A producer in a thread, and a RunningConsumer; keeps the acknowledged records.

    `security`: settings of confluent-kafka for a listener with TLS or SASL, `group` the only group that the user has.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        pause_s: float = 0.001,
        security: Mapping[str, Any] = _OPEN,
        group: str = _GROUP,
    ) -> None:
        """`security` has librdkafka's settings of TLS and SASL. `check` then needs `raw`."""
        self._security = dict(security)
        self._group = group
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.acknowledged_somewhere: dict[int, set[bytes]] = defaultdict(set)
        """Records whose own response was lost and that a later acknowledgement confirms.

        librdkafka names no offset for them.
        """
        self.failures: list[str] = []
        self.count = 0
        """Number of records acknowledged so far."""
        self.sent = 0
        self.longest_gap_s = 0.0
        self._last_s = 0.0
        self._stop = threading.Event()
        self._finished = threading.Event()
        """Never set: waiting for it is a pause."""
        self._thread = threading.Thread(target=self._run, name="acknowledged-workload")

    def __enter__(self) -> Self:
        self._last_s = time.monotonic()
        self._producer = self._made()
        self._consumer = RunningConsumer(self._bootstrap, self._topic, self._partitions, self._security, self._group)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if kind is not None:
            self._consumer.stop()

    def set_credentials(self, user: str, password: str) -> None:
        """Authenticate with these credentials from now on, as a client does that reads a rotated Secret."""
        self._security |= {"sasl.username": user, "sasl.password": password}
        self._producer.set_sasl_credentials(user, password)
        self._consumer.set_credentials(user, password)

    def _made(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                # A frozen broker must be noticed sooner than by the default of 30 s.
                "request.timeout.ms": 3_000,
                "socket.timeout.ms": 4_000,
            }
            | _SETTINGS
            | _RECONNECT
            | self._security
        )

    def _run(self) -> None:
        producer = self._producer
        while not self._stop.is_set():
            value = b"%d" % self.sent
            producer.produce(self._topic, value, partition=self.sent % self._partitions, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(self._pause_s)
        left = producer.flush(60)
        if left:
            self.failures.append(f"{left} records were neither acknowledged nor refused")

    def _delivered(self, error: object, message: Message) -> None:
        now_s = time.monotonic()
        if error is not None:
            self.failures.append(str(error))
            return
        self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s)
        self._last_s = now_s
        if message.offset() is None:
            self.acknowledged_somewhere[message.partition()].add(message.value())
        else:
            self.acknowledged[message.partition()][message.offset()] = message.value()
            self.count += 1

    def read_back(self, bootstrap: str) -> dict[int, dict[int, bytes]]:
        """All readable records, by partition and offset."""
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": self._group, "enable.auto.commit": False, "log_level": 2}
            | self._security
        )
        found: dict[int, dict[int, bytes]] = defaultdict(dict)
        try:
            ends = {index: _end_of(consumer, TopicPartition(self._topic, index)) for index in range(self._partitions)}
            consumer.assign([TopicPartition(self._topic, index, 0) for index in ends])
            deadline = time.monotonic() + 60
            while any(len(found[index]) < end for index, end in ends.items()):
                assert time.monotonic() < deadline, f"read { ({i: len(f) for i, f in found.items()}) } of {ends}"
                for message in consumer.consume(5_000, timeout=1.0):
                    assert message.error() is None, message.error()
                    found[message.partition()][message.offset()] = message.value()
        finally:
            consumer.close()
        return found

    def check(self, bootstrap: str | None = None, *, raw: str | None = None) -> None:
        """Assert that each acknowledged record is at its acknowledged offset, in order, and no record is there twice.

        This holds as far as Kafka promises it: `producer_epochs` says when a record without an acknowledgement may
        repeat.

        `bootstrap`: where to read the records, if no broker has its first address any more. `raw`: a listener
        without authentication for reading the batches, if the workload uses one with authentication.

        The consumer that ran all the time must have read the same: no record twice, and none that is gone now.
        """
        try:
            assert self.failures == []
            assert self.count, "nothing was acknowledged: the workload has shown nothing"
            found = self.read_back(bootstrap or self._bootstrap)
            deadline = time.monotonic() + 60
            while any(len(self._consumer.seen[index]) < len(there) for index, there in found.items()):
                assert time.monotonic() < deadline, (
                    f"the running consumer does not come to the end: {self._consumer.standing(found)}"
                )
                self._finished.wait(0.05)
        finally:
            self._consumer.stop()
        assert self._consumer.failures == []
        for index, there in found.items():
            assert self._consumer.seen[index] == there, f"partition {index}: the running consumer read something else"
        for index, acknowledged in self.acknowledged.items():
            there = found[index]
            lost = {offset: value for offset, value in acknowledged.items() if there.get(offset) != value}
            assert not lost, (
                f"partition {index}: {len(lost)} acknowledged records are lost or moved: {sorted(lost)[:5]}"
            )
            missing = self.acknowledged_somewhere[index] - set(there.values())
            assert not missing, (
                f"partition {index}: {len(missing)} acknowledged records are lost: {sorted(missing)[:5]}"
            )
            written = written_batches(raw or bootstrap or self._bootstrap, self._topic, index, max(there) + 1)
            fault = fault_in(written, {offset: int(value) for offset, value in acknowledged.items()})
            assert fault is None, f"partition {index}: {fault}"
