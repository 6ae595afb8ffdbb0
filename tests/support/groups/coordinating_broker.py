"""A broker in memory that coordinates groups, with the parts that handlers of group APIs use.

async with CoordinatingBroker() as node:
    await node.lead()
    answer = await node.ask(offset_fetch.API, 9, {...})
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.groups.epoch_ends import EpochEnds
from broker_runtime.groups.on_demand import EndsMadeOf
from broker_runtime.groups.partition_leaders import PartitionLeaders
from broker_runtime.groups.service import GroupCoordinatorService
from broker_runtime.metadata.areas.topics import NO_LEADER, PartitionRecord
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.header import prefix
from broker_runtime.wire.messages import (
    Entity,
    decode_request,
    decode_response,
    encode_request_body,
)
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.scripted_verifier import ScriptedVerifier
from tests.support.logs.logs import LOG_DIR
from tests.support.requests.calls import a_call, reply_to
from tests.support.worlds.controller import Metadata

ME = 1
_ITERATIONS_MAX = 100_000


class CoordinatingBroker(AbstractAsyncContextManager["CoordinatingBroker"]):
    """Broker 1. The topic `orders` has three partitions; __consumer_offsets exists once the broker is to lead it.

    `replicas` are those of each partition of __consumer_offsets. The other replicas fetch when a test says so.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        partitions: int = 2,
        replicas: tuple[int, ...] = (ME,),
        fs: MemoryFileSystem | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.settings = broker_settings(
            {"node.id": str(ME), "listeners": "PLAINTEXT://127.0.0.1:9092"} | dict(properties or {})
        )
        self.metadata = Metadata()
        self.image = self.metadata.image
        for broker in sorted({ME, *replicas}):
            self.metadata.broker(broker)
        self.orders = self.metadata.topic("orders", (ME,), (ME,), (ME,))
        self.fs = fs or MemoryFileSystem()
        self.logs = LogManager(LOG_DIR, fs=self.fs, clock=self.clock)
        self.logs.open(lambda _topic: TopicConfig())
        self.replicas = ReplicaManager(self.settings, self.clock, self.logs, self.image, cast("Peers", None))
        self.asked_for: list[str] = []
        self.log_ends: dict[tuple[str, int], int] = {}
        """Log ends of `orders`; the ends of all other topics are unknown."""
        self.transaction_verifier = ScriptedVerifier()
        self._partitions, self._replicas = partitions, replicas
        self._epoch = 0

    async def __aenter__(self) -> "CoordinatingBroker":
        node_id, own_end, leaders = self.ends_made_of()
        ends = EpochEnds(node_id, self.image, own_end, leaders)
        self.groups = GroupCoordinatorService(
            self.replicas.led_replicas.is_to_lead, lambda: self.settings.config, self.image, self.clock, ends
        )
        self.replicas.led_replicas.observers[GROUPS_TOPIC] = self.groups
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.replicas.stop()
        await self.groups.close()

    def ends_made_of(self) -> EndsMadeOf:
        def own_end(topic: str, index: int, epoch: int) -> int | None:
            del epoch
            return self.log_ends.get((topic, index))

        return ME, own_end, PartitionLeaders(self.image, cast("Any", None), 1.0)

    @property
    def auto_topic_creation(self) -> "CoordinatingBroker":
        return self

    def ask_for(self, names: Collection[str], client: object = None) -> None:
        self.asked_for += names

    def make_offsets_topic(self) -> None:
        if GROUPS_TOPIC not in self.image.topics:
            self.metadata.topic(GROUPS_TOPIC, *[self._replicas] * self._partitions)

    def elect(self, leader: int, index: int | None = None) -> None:
        """Let the controller elect a leader in a new epoch for all partitions, or one; NO_LEADER: for none."""
        self.make_offsets_topic()
        topic = self.image.topics[GROUPS_TOPIC]
        self._epoch += 1
        for each in list(topic.partitions) if index is None else [index]:
            part = topic.partitions[each]
            self.metadata.write(
                PartitionRecord(topic.id, each, part.replicas, part.isr, leader, self._epoch, part.partition_epoch + 1)
            )
        list(self.replicas.apply_partitions(topic.id, list(topic.partitions), TopicConfig()))

    async def lead(self) -> None:
        """Make this broker lead every partition, and load them."""
        self.elect(ME)
        await self.loaded()

    async def loaded(self) -> None:
        terms, partitions = self.groups.terms, self.image.topics[GROUPS_TOPIC].partitions
        for _ in range(_ITERATIONS_MAX):
            if all(index in terms and terms[index].phase is TermPhase.ACTIVE for index in partitions):
                return
            await asyncio.sleep(0)
        raise AssertionError(f"not loaded: {self.groups.problems}")

    def lose(self) -> None:
        self.elect(NO_LEADER)

    def append(self, key: bytes, value: bytes, index: int = 0) -> None:
        """Append a record that no decision of this broker has made."""
        leader = self.leader(index)
        batch = encode_batch([(key, value)], self.clock.wall_ms())
        leader.log.append(memoryview(batch), leader_epoch=leader.leader_epoch)

    async def loading(self) -> None:
        """Make partition 0 wait until broker 2, which must be a replica, has an earlier leader's last record."""
        self.elect(ME)
        await self.loaded()
        self.append(b"\x00\x63", b"")
        self.elect(ME)
        await asyncio.sleep(0)

    def follow(self, index: int = 0) -> None:
        """Let broker 2 fetch all records."""
        leader = self.leader(index)
        leader.on_fetch(2, self.image.brokers[2].epoch, leader.log.log_end_offset, self.clock.monotonic())

    def leader(self, index: int = 0) -> LeaderReplica:
        return self.replicas.led_replicas.led(GROUPS_TOPIC, index)

    async def ask(self, api: ApiSpec[Any], version: int, content: dict[str, Any]) -> Entity:
        """The answer to an encoded request, as a client decodes it."""
        body = memoryview(encode_request_body(api.key, version, content))
        call = a_call(api, version)
        reads_itself = api.reads == "frame"
        request = RequestReader(body, 0, call.flexible) if reads_itself else decode_request(api.key, version, body)
        reply: Any = await reply_to(call, api.handle(request, call, cast("Any", self)))
        packed = b"".join(reply)[len(prefix(0, 0, call.flexible)) :]
        return decode_response(api.key, version, memoryview(packed))


def versions(api: ApiSpec[Any]) -> range:
    return range(api.versions[0], api.versions[1] + 1)
