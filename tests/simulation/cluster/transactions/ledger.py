"""The transactional applications of a simulated cluster, with their topics and their history."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker_runtime.storage.log.log import Log
from tests.simulation.cluster.connection import Key
from tests.simulation.cluster.transactions.reading import GroupOffset, PartitionReader
from tests.simulation.cluster.transactions.writers import Application, Transformer, Writer
from tests.support.transactions.history import End, History, Reading, Transform, batches_of
from tests.support.transactions.judgement import faults_of

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

ENTRIES, RESULTS = "entries", "results"
_PARTITIONS = 2
_INSTANCES = 2
"""Applications with the same transactional id, which fence each other."""
KEYS = {
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.max.timeout.ms": "10000",
}
"""Configuration of brokers that shortens what transactions wait for."""


class Ledger:
    """Writers to one topic, and for each of its partitions a transformation of its records into another topic."""

    def __init__(self, cluster: "Cluster") -> None:
        self.history = History()
        self._cluster = cluster
        self._version = cluster.shape.transaction_version
        self._writers: list[Writer] = []
        self._readers: list[PartitionReader] = []
        self._has_offsets = False
        """Whether the offsets that groups have committed at the end are known."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """Return the partitions that only transactions write."""
        if not self._cluster.shape.writers:
            return ()
        return tuple((topic, index) for topic in (ENTRIES, RESULTS) for index in range(_PARTITIONS))

    async def prepare(self) -> bool:
        """Create the topics. False and a mistake if that is impossible."""
        for topic in (ENTRIES, RESULTS) if self.keys else ():
            if not await self._cluster.admin.has_topic(topic, _PARTITIONS):
                return False
        return True

    def start(self) -> None:
        """Start all applications."""
        for key in self.keys:
            for isolation in ("committed", "uncommitted"):
                owner, view = self._cluster.client(f"read-{isolation}-{key[0]}-{key[1]}")
                reader = PartitionReader(Reading(owner.name, key, isolation == "committed"), view)
                self.history.readings.append(reader.reading)
                self._readers.append(reader)
                self._cluster.run_as(owner, reader.run())
        entries = [key for key in self.keys if key[0] == ENTRIES]
        results = [key for key in self.keys if key[0] == RESULTS]
        for number in range(self._cluster.shape.writers):
            for instance in range(_INSTANCES):
                self._run(f"writer-{number}", instance, entries, Writer)
        for source in entries:
            transform = Transform(f"transform-{source[1]}", source)
            self.history.transforms.append(transform)
            for instance in range(_INSTANCES):
                self._run(transform.group, instance, results, partial(Transformer, transform=transform))

    def _run(
        self, transactional_id: str, instance: int, keys: Sequence[Key], kind: Callable[[Application], Writer]
    ) -> None:
        name, around, version = f"{transactional_id}.{instance}", self._cluster.around, self._version
        owner, view = self._cluster.client(name)
        writer = kind(
            Application(name, transactional_id, keys, self.history, view, around.wall_ms, around.mistake, version)
        )
        self._writers.append(writer)
        self._cluster.run_as(owner, writer.run())

    def stop(self) -> None:
        """Let all writers end after their transaction, and find out what groups have committed."""
        for writer in self._writers:
            writer.stopped = True
        owner, view = self._cluster.client("ledger")
        offsets = [GroupOffset(transform.group, transform.source, view) for transform in self.history.transforms]
        self._cluster.run_as(owner, self._close(offsets))

    async def _close(self, offsets: Iterable[GroupOffset]) -> None:
        for writer in self._writers:
            await writer.settled.wait()
        for transform, offset in zip(self.history.transforms, offsets, strict=True):
            transform.committed_offset = await offset.stable()
        self._has_offsets = True

    def is_settled(self, logs: Iterable[Log]) -> bool | str:
        """Whether every transaction has ended and every reader is at the end; `logs` are those of the leaders."""
        waiting = [writer.name for writer in self._writers if not writer.settled.is_set()]
        if waiting:
            return f"writers have not ended: {', '.join(waiting)}"
        for log in logs:
            key = (log.topic, log.partition)
            if log.last_stable_offset != log.log_end_offset:
                return f"a transaction in {key} is open from offset {log.last_stable_offset} on"
            for reader in self._readers:
                if reader.reading.key == key and reader.reading.position != log.log_end_offset:
                    return f"{reader.reading.name} is at {reader.reading.position}"
        return self._has_offsets or "the offsets of groups are not known"

    def judge(self) -> None:
        """Report the faults of the history as mistakes of the cluster, once `take` has got all logs."""
        for fault in faults_of(self.history):
            self._cluster.around.mistake(fault)

    def take(self, key: Key, content: bytes) -> None:
        """Take over the bytes of a partition's log."""
        self.history.logs[key] = list(batches_of(content))

    def figures(self) -> dict[str, int]:
        """Return how many transactions ended in each way, and how many inputs were transformed."""
        ends = [attempt.end for attempt in self.history.attempts]
        return {
            "transactions committed": ends.count(End.COMMITTED),
            "transactions aborted": ends.count(End.ABORTED),
            "transactions left": ends.count(End.OPEN) + ends.count(End.COMMIT_ASKED),
            "transformed": sum(
                len(attempt.consumed)
                for transform in self.history.transforms
                for attempt in transform.attempts
                if attempt.end is End.COMMITTED
            ),
        }
