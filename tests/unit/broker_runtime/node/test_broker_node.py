"""A broker's reactions to metadata: a failed one does not stop the others."""

import asyncio
from collections.abc import Collection, Iterator
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from broker_runtime.cluster import reactions
from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.quotas import IP_RATE_KEY, ClientQuotaRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.node.broker_node import BrokerNode
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.storage.disk.disk import Pause
from broker_runtime.storage.log_dir.manager import LogManager
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR

TOPIC = 2


class Scene:
    """Broker 1 leads one partition of each of three topics."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.fs = MemoryFileSystem()
        self.logs = LogManager(LOG_DIR, fs=self.fs, clock=clock)
        self.logs.open(lambda _topic: TopicConfig())
        client: Any = Mock()
        settings = broker_settings({"node.id": "1", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"})
        self.node = BrokerNode(settings, clock, self.logs, "cluster", (client, client), peers=Mock(), server=Mock())
        self.offset = 0

    @classmethod
    async def begun(cls) -> "Scene":
        scene = cls()
        scene.node.metadata.take_up_replicas(lambda: None)
        await scene.change(*(record for number in (1, 2, 3) for record in made(number)))
        return scene

    async def change(self, *records: MetadataRecord) -> None:
        changes = Changes()
        for record in records:
            changes.update(self.node.image.apply(record, self.offset))
            self.offset += 1
        done = asyncio.Event()
        self.node.metadata.publish(changes, done.set)
        async with asyncio.timeout(60):
            await done.wait()

    @property
    def led(self) -> set[str]:
        return {topic for topic, _ in self.node.replicas.led_replicas.leaders}


def made(number: int) -> tuple[TopicRecord, PartitionRecord]:
    topic_id = UUID(int=number)
    return TopicRecord(f"topic-{number}", topic_id), PartitionRecord(topic_id, 0, (1,), (1,), 1, 0, 0)


async def test_a_log_that_cannot_be_deleted_takes_nothing_else_with_it() -> None:
    scene = await Scene.begun()

    def fail() -> None:
        if scene.node.replicas.led_replicas.leaders and ("topic-1", 0) not in scene.node.replicas.led_replicas.leaders:
            scene.fs.before_change = lambda: None
            raise OSError("input/output error")

    scene.fs.before_change = fail
    retention = ConfigRecord(TOPIC, "topic-3", "retention.ms", "1234")
    await scene.change(RemoveTopic(UUID(int=1)), RemoveTopic(UUID(int=2)), *made(4), retention)
    assert scene.led == {"topic-3", "topic-4"}
    (kept,) = [log for log in scene.logs.logs() if log.topic == "topic-3"]
    assert kept.config.retention_ms == 1234
    await scene.change(TopicRecord("topic-1", UUID(int=5)), PartitionRecord(UUID(int=5), 0, (1,), (1,), 1, 0, 0))
    assert scene.led == {"topic-1", "topic-3", "topic-4"}


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no")])
async def test_a_topic_that_fails_is_applied_again_and_the_others_at_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await Scene.begun()
    real, failures = ReplicaManager.apply_partitions, [error]
    failing_id = made(4)[0].id

    def fail_once(
        self: ReplicaManager, topic_id: UUID, indexes: Collection[int], config: TopicConfig
    ) -> Iterator[Pause | None]:
        if topic_id == failing_id and failures:
            raise failures.pop()
        return real(self, topic_id, indexes, config)

    monkeypatch.setattr(ReplicaManager, "apply_partitions", fail_once)
    await scene.change(*made(4), *made(5))
    assert scene.led == {"topic-1", "topic-2", "topic-3", "topic-5"}
    assert scene.node.metadata.reactions.failing == ["applying topic topic-4"]
    await scene.change(PartitionRecord(failing_id, 1, (1,), (1,), 1, 0, 0))
    assert {index for topic, index in scene.node.replicas.led_replicas.leaders if topic == "topic-4"} == {0, 1}


async def test_a_change_of_one_partition_is_work_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await Scene.begun()
    real, applied = ReplicaManager.apply_partitions, list[int]()

    def note(
        self: ReplicaManager, topic_id: UUID, indexes: Collection[int], config: TopicConfig
    ) -> Iterator[Pause | None]:
        applied.extend(indexes)
        return real(self, topic_id, indexes, config)

    monkeypatch.setattr(ReplicaManager, "apply_partitions", note)
    partitions = [PartitionRecord(UUID(int=9), index, (1,), (1,), 1, 0, 0) for index in range(50)]
    await scene.change(TopicRecord("many", UUID(int=9)), *partitions)
    assert sorted(applied) == list(range(50))
    await scene.change(PartitionRecord(UUID(int=9), 7, (1,), (1,), 1, 1, 1))
    assert applied[50:] == [7]
    await scene.change(ConfigRecord(TOPIC, "many", "retention.ms", "1234"))
    assert len(applied) == 51
    assert {log.config.retention_ms for log in scene.logs.logs() if log.topic == "many"} == {1234}


async def test_a_topic_that_is_made_again_does_not_wait_for_many_partitions_that_were_made_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reactions, "SLICE_S", 0.0)
    scene = await Scene.begun()
    many = (PartitionRecord(UUID(int=9), index, (1,), (1,), 1, 0, 0) for index in range(2_000))
    large = asyncio.create_task(scene.change(TopicRecord("many", UUID(int=9)), *many))
    await asyncio.sleep(0)
    again = TopicRecord("topic-1", UUID(int=8)), PartitionRecord(UUID(int=8), 0, (1,), (1,), 1, 0, 0)
    small = asyncio.create_task(scene.change(RemoveTopic(UUID(int=1)), *again))
    for _ in range(20):
        await asyncio.sleep(0)
    assert scene.node.replicas.led_replicas.led("topic-1", 0).topic_id == UUID(int=8)
    assert ("many", 1_999) not in scene.node.replicas.led_replicas.leaders
    assert not small.done(), "what is told is the offset up to which everything is in force"
    await large
    await small


async def test_a_quota_that_could_not_be_applied_is_with_the_next_one() -> None:
    scene = await Scene.begun()
    server: Any = scene.node.server
    server.update_ip_rate.side_effect = RuntimeError("a mistake")
    await scene.change(ClientQuotaRecord((("ip", "10.0.0.1"),), IP_RATE_KEY, 1))
    assert scene.node.metadata.reactions.failing == ["applying quotas of addresses"]
    server.update_ip_rate.reset_mock(side_effect=True)
    await scene.change(ClientQuotaRecord((("ip", "10.0.0.2"),), IP_RATE_KEY, 2))
    assert sorted(call.args for call in server.update_ip_rate.call_args_list) == [("10.0.0.1", 1), ("10.0.0.2", 2)]
