"""Many changes at once take effect in small pieces, and are announced only after all of them have."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, cast
from unittest.mock import Mock
from uuid import UUID

from broker_runtime.cluster.metadata_publisher import MetadataPublisher
from broker_runtime.cluster.reactions import Pieces, Reactions
from broker_runtime.config import broker_settings
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.storage.log_dir.manager import LogManager
from tests.support.fakes.manual_clock import ManualClock
from tests.support.worlds.controller import Metadata

TOPICS = 1_000
IN_A_PIECE = 100


class Replicas:
    """Notes the topics that are applied and configured."""

    def __init__(self) -> None:
        self.applied: list[UUID] = []
        self.configured: list[UUID] = []
        self.offline: dict[tuple[str, int], str] = {}

    def note_removals(self, removals: object) -> None:
        pass

    def remove_strays(self) -> Iterator[None]:
        return iter(())

    def apply_partitions(self, topic_id: UUID, indexes: list[int], config: object) -> Iterator[None]:
        self.applied.append(topic_id)
        yield

    def configure(self, topic_id: UUID, config: object) -> Iterator[None]:
        self.configured.append(topic_id)
        yield


class CountedReactions(Reactions):
    """Counts the steps that are added."""

    added = 0

    def run_over_slices(self, name: str, step: Pieces) -> None:
        self.added += 1
        super().run_over_slices(name, step)


class Bench:
    def __init__(self) -> None:
        self.metadata = Metadata()
        self.replicas = Replicas()
        configured: Any = (Mock(), Mock(), Mock())
        self.publisher = MetadataPublisher(
            broker_settings({"node.id": "1"}),
            cast("Any", ManualClock()),
            self.metadata.image,
            cast("LogManager", Mock()),
            cast("ReplicaManager", self.replicas),
            configured,
        )
        self.reactions = CountedReactions(asyncio.get_running_loop(), ManualClock().monotonic)
        self.publisher.reactions = self.publisher.replica_publisher._reactions = self.reactions
        self.ids = [UUID(int=number + 1) for number in range(TOPICS)]
        for number, topic_id in enumerate(self.ids):
            self.metadata.write(TopicRecord(f"t{number}", topic_id))
            self.metadata.write(PartitionRecord(topic_id, 0, (1,), (1,), 1, 0, 0))

    def counted(self, begin: Callable[[Callable[[], None]], None]) -> int:
        """Largest number of steps that one piece has added; returns when `begin`'s callback was called."""
        done = list[bool]()
        added = [self.reactions.added]
        begin(lambda: done.append(True))
        added.append(self.reactions.added)
        assert not done
        while not done:
            step = self.reactions._next()
            assert step is not None
            self.reactions._run_piece(step)
            added.append(self.reactions.added)
        return max(after - before for before, after in pairwise(added))


async def test_the_partitions_of_many_topics_are_taken_up_in_pieces() -> None:
    bench = Bench()
    assert bench.counted(bench.publisher.take_up_replicas) <= IN_A_PIECE
    assert sorted(bench.replicas.applied) == bench.ids


async def test_many_changed_topics_are_applied_and_configured_in_pieces() -> None:
    bench = Bench()
    bench.counted(bench.publisher.take_up_replicas)
    bench.replicas.applied.clear()
    changes = Changes()
    changes.partitions |= {(topic_id, 0) for topic_id in bench.ids}
    changes.topic_configs |= {f"t{number}" for number in range(TOPICS)}
    assert bench.counted(lambda done: bench.publisher.publish(changes, done)) <= IN_A_PIECE
    assert sorted(bench.replicas.applied) == sorted(bench.replicas.configured) == bench.ids


async def test_client_quotas_are_in_force_before_their_metadata_is_reported() -> None:
    bench = Bench()
    applied: list[str] = []

    def apply() -> Iterator[None]:
        applied.append("begun")
        yield
        applied.append("done")

    bench.publisher.on_client_quotas = apply
    bench.counted(lambda done: bench.publisher.publish(Changes(client_quotas={"producer_byte_rate"}), done))
    assert applied == ["begun", "done"]
