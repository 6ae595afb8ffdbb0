"""Members of a consumer group that read and commit during faults, for each of the three protocols of groups.

    with GroupReaders(bootstrap, "orders", "billing", "consumer", partitions=4) as readers:
        ...
        readers.wait_for(ends)

A record may be read more than once, but none may be left out, and no committed offset may go back.
"""

import asyncio
import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import Any, Literal, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

import sluicegate_consumer

Protocol = Literal["classic", "consumer", "push"]
_SETTINGS: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    "metadata.recovery.strategy": "none",
    "log_level": 2,
}
_PUSH = sluicegate_consumer.Settings(session_timeout_s=3.0, callback_timeout_s=1.0)
_WATCHED_EVERY_S = 0.2
_PATIENCE_S = 60.0


class GroupReaders:
    """Two members of a group, a thread each, and a thread that watches the committed offsets of the group."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: Protocol, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        self._protocol = protocol
        self._partitions = partitions
        self.read: dict[int, set[int]] = defaultdict(set)
        """Offsets that were read, by partition."""
        self.committed: dict[int, int] = {}
        """The last committed offset that was seen, by partition."""
        self.failures: list[str] = []
        self._over = threading.Event()
        member = self._push_member if protocol == "push" else self._member
        self._threads = [
            *(threading.Thread(target=member, name=f"{protocol}-member-{number}") for number in range(2)),
            threading.Thread(target=self._watch, name=f"{protocol}-watch"),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _member(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": self._group, "group.protocol": self._protocol}
        consumer = Consumer(settings | _SETTINGS)
        try:
            consumer.subscribe([self._topic])
            while not self._over.is_set():
                for message in consumer.consume(500, timeout=0.2):
                    if message.error() is None:
                        self.read[message.partition()].add(message.offset())
        finally:
            consumer.close()

    def _push_member(self) -> None:
        asyncio.run(self._push())

    async def _push(self) -> None:
        consumer = sluicegate_consumer.Consumer(self._bootstrap, self._group, topics=[self._topic], settings=_PUSH)
        async with consumer:
            reading = asyncio.ensure_future(self._read_pushed(consumer))
            over = asyncio.ensure_future(asyncio.to_thread(self._over.wait))
            await asyncio.wait((reading, over), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    async def _read_pushed(self, consumer: sluicegate_consumer.Consumer) -> None:
        try:
            async for record in consumer:
                self.read[record.partition].add(record.offset)
                record.acknowledge()
        except sluicegate_consumer.ConsumerError as error:
            self.failures.append(f"the consumer of the push group ended: {error!r}")

    def _watch(self) -> None:
        """Note each committed offset that is lower than the one before."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": self._group, "enable.auto.commit": False}
        consumer = Consumer(_SETTINGS | settings)
        asked = [TopicPartition(self._topic, index) for index in range(self._partitions)]
        try:
            while not self._over.wait(_WATCHED_EVERY_S):
                # A coordinator that is moving or loading refuses for a moment.
                with suppress(KafkaException):
                    for found in consumer.committed(asked, timeout=5):
                        self._note_committed(found)
        finally:
            consumer.close()

    def _note_committed(self, found: TopicPartition) -> None:
        before = self.committed.get(found.partition, -1)
        if found.error is None and found.offset < 0 <= before:
            self.failures.append(f"partition {found.partition}: no committed offset after {before}")
        elif found.error is None and found.offset >= 0:
            if found.offset < before:
                self.failures.append(f"partition {found.partition}: committed {found.offset} after {before}")
            self.committed[found.partition] = found.offset

    def wait_for(self, ends: dict[int, int]) -> None:
        """Wait until the group has read and committed everything below these offsets, by partition.

        Then check that no committed offset went back.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not all(len(self.read[index]) == end and self.committed.get(index) == end for index, end in ends.items()):
            assert self.failures == [], self._standing()
            assert time.monotonic() < deadline, f"the {self._protocol} group is not at {ends}: {self._standing()}"
            self._over.wait(_WATCHED_EVERY_S)
        assert self.failures == [], f"{self._protocol}: {self.failures[:5]}"

    def _standing(self) -> str:
        read = {index: len(offsets) for index, offsets in sorted(self.read.items())}
        return f"read {read}, committed {self.committed}, failures {self.failures}"
