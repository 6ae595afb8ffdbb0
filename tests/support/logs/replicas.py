"""Leaders and followers of one partition in memory, connected by real requests without sockets."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from broker_runtime.apis.fetch import fetch, list_offsets, offset_for_leader_epoch
from broker_runtime.apis.fetch_sessions.fetch_sessions import FetchSessionCache
from broker_runtime.apis.fetch_sessions.repeated_fetch import RepeatedFetches
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig, BrokerSettings, TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.areas.topics import Partition, PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.disk.waiters import AtOnce
from broker_runtime.storage.log.log import Log
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import decode_request, encode_response, frame_request
from broker_runtime.wire.reply import FileRegion, PendingReply
from broker_runtime.wire.versions import FETCH, LIST_OFFSETS
from tests.support.fakes.scripted_verifier import ScriptedVerifier
from tests.support.logs.logs import TOPIC_ID
from tests.support.requests.calls import a_call, fields_of, handled

TOPIC = "orders"
T = TypeVar("T")


def broker_info(broker_id: int, epoch: int = 10, *, fenced: bool = False) -> BrokerInfo:
    return BrokerInfo(broker_id, epoch + broker_id, UUID(int=epoch + broker_id), (), None, fenced)


def brokers(*ids: int) -> dict[int, BrokerInfo]:
    return {broker_id: broker_info(broker_id) for broker_id in ids}


def lag_of(leader: LeaderReplica, replica: int) -> int | None:
    """Number of records that a follower misses; None if unknown."""
    follower = leader.followers.get(replica)
    if follower is None or follower.end_offset < 0:
        return None
    return max(0, leader.log.log_end_offset - follower.end_offset)


def leading(log: Log, *replicas: int, epoch: int = 0, isr: tuple[int, ...] | None = None) -> LeaderReplica:
    """A leader: the first replica leads; all are in sync by default."""
    chosen = replicas or (1,)
    leader = LeaderReplica(chosen[0], TOPIC, TOPIC_ID, 0, log)
    leader.update(Partition(chosen, isr or chosen, chosen[0], epoch, 0), brokers(*chosen), 0.0)
    return leader


class NotedAtOnce:
    """The part of a LogManager that a deletion of records and a fetch use."""

    wakes = AtOnce()

    @property
    def log_starts(self) -> "NotedAtOnce":
        return self

    def gathered(self) -> AbstractContextManager[None]:
        return nullcontext()

    def write_soon(self, done: Callable[[Exception | None], None]) -> None:
        done(None)


class LeadingNode:
    """The parts of a broker that fetching and producing use: it leads `orders-0`."""

    def __init__(self, leader: LeaderReplica, clock: Clock) -> None:
        self.leader = leader
        self.clock = clock
        self.settings: BrokerSettings = broker_settings({"node.id": "1"})
        self.image = MetadataImage()
        self.image.apply(TopicRecord(TOPIC, TOPIC_ID), 0)
        replicas, isr = leader.replicas, leader.isr
        self.image.apply(PartitionRecord(TOPIC_ID, 0, replicas, isr, replicas[0], leader.leader_epoch, 0), 1)
        self.logs = NotedAtOnce()
        self.fetch_sessions = FetchSessionCache(BrokerConfig(max_incremental_fetch_session_cache_slots=10), Random(1))
        self.repeated_fetches = RepeatedFetches(1_000)
        self.transaction_verifier = ScriptedVerifier()
        self.timers: list[Callable[[], None]] = []
        self.aside_is_full = False
        self.aside: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def led(self, topic: str, partition: int) -> LeaderReplica:
        if (topic, partition) != (TOPIC, 0):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not here")
        if self.leader.leader_epoch < 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not any more")
        return self.leader

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        leader = self.led(topic, partition)
        return leader.log, leader.leader_epoch

    def offload(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Queue the work; a test runs it from `aside`."""
        if self.aside_is_full:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too much waits")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.aside.append((work, done))
        return done

    def topic_config(self, topic: str) -> TopicConfig:
        del topic
        return self.leader.log.config

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "LeadingNode":
        """Queue a time-out; it fires when a test runs `timers`."""
        del delay_s
        self.timers.append(callback)
        return self

    def cancel(self) -> None:
        """Do nothing: this object is also the timer."""


class LinkTo:
    """A PeerLink straight into a leader's handlers; `mishaps` are raised first, one for each request."""

    def __init__(self, node: LeadingNode) -> None:
        self.node = node
        self.mishaps: list[KafkaError] = []
        self.closed = 0
        self.asked: list[int] = []

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        self.asked.append(api_key)
        # A socket would let other tasks run here, and time would pass.
        await asyncio.sleep(0.001)
        if self.mishaps:
            raise self.mishaps.pop(0)
        node = cast("Any", self.node)
        if api_key == FETCH:
            frame = memoryview(frame_request(api_key, version, 0, body))[4:]
            reply = handled(fetch.API, frame, node)
            if isinstance(reply, PendingReply):
                for timer in self.node.timers:
                    timer()
                reply = _completed(reply)
            whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
        else:
            api = list_offsets.API if api_key == LIST_OFFSETS else offset_for_leader_epoch.API
            answer = api.handle(decode_request(api_key, version, memoryview(body)), a_call(api, version), node)
            whole = encode_response(api_key, version, 0, fields_of(answer))
        return memoryview(whole)[len(response_prefix(api_key, version, 0, 0)) :]

    def close(self) -> None:
        self.closed += 1


def _completed(pending: PendingReply) -> Any:
    found: list[Any] = []
    pending.on_complete(found.append)
    assert found, "the long poll was not over"
    return found[0]
