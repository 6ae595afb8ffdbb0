"""A Kafka producer whose topic accepts so many records a second, with the behaviour of librdkafka."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tests.support.fakes.manual_clock import ManualClock


class Delivered:
    """The known facts of a delivered message."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class SlowTopic:
    """A topic whose producer is slow.

    `values` are the stored records. After the value `refuses` nothing more is accepted.
    """

    def __init__(self, per_s: float, refuses: bytes | None = None) -> None:
        self.clock = ManualClock()
        self.per_s = per_s
        self.refuses = refuses
        self.values: list[bytes] = []
        self.first_offset = 0
        self.most_under_way = 0
        self.opened = 0

    def producer(self, config: Mapping[str, Any]) -> "SlowProducer":
        self.opened += 1
        return SlowProducer(self, config)


class SlowProducer:
    """A producer whose waits move the topic's clock.

    A record that has waited for `message.timeout.ms` has failed; 0 means no time-out.
    """

    def __init__(self, topic: SlowTopic, config: Mapping[str, Any]) -> None:
        assert config["enable.idempotence"]
        assert config["enable.gapless.guarantee"]
        self._topic = topic
        self._most: int = config["queue.buffering.max.messages"]
        self._timeout_s = config["message.timeout.ms"] / 1000 or float("inf")
        self._waiting: list[tuple[float, bytes, Callable[..., None]]] = []
        self._served_s = topic.clock.monotonic()
        self._credit = 0.0

    def produce(self, _: str, value: bytes, key: bytes, *, timestamp: int, on_delivery: Callable[..., None]) -> None:
        assert key
        assert timestamp
        if len(self._waiting) >= self._most:
            raise BufferError
        self._waiting.append((self._topic.clock.monotonic(), value, on_delivery))
        self._topic.most_under_way = max(self._topic.most_under_way, len(self._waiting))

    def poll(self, timeout: float) -> int:
        topic = self._topic
        topic.clock.advance(timeout)
        now_s = topic.clock.monotonic()
        self._credit = self._credit + topic.per_s * (now_s - self._served_s) if self._waiting else 0.0
        self._served_s = now_s
        served = 0
        while self._waiting and (self._credit >= 1 or now_s - self._waiting[0][0] > self._timeout_s):
            self._serve_first(now_s)
            served += 1
        return served

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self._waiting)

    def purge(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, told in waiting:
            told(KafkaError(KafkaError._PURGE_QUEUE), Delivered(-1001))

    def _serve_first(self, now_s: float) -> None:
        put_s, value, told = self._waiting.pop(0)
        if now_s - put_s > self._timeout_s:
            told(KafkaError(KafkaError._MSG_TIMED_OUT), Delivered(-1001))
        elif value == self._topic.refuses:
            told(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), Delivered(-1001))
            self.purge()
            raise KafkaException(KafkaError(KafkaError._GAPLESS_GUARANTEE))
        else:
            self._credit -= 1
            self._topic.values.append(value)
            told(None, Delivered(self._topic.first_offset + len(self._topic.values) - 1))
