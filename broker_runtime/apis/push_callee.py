"""A consumer on its connection, which the coordinator calls: calls become frames of the push protocol there."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from broker_runtime.groups.push.calls import Call, HangUp, Ping, StartAt, StartFetcher, StopFetcher
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topics import NO_LEADER
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.push import layouts
from broker_runtime.wire.push.messages import (
    Broker,
    PartitionOffset,
    PingRequest,
    StartFetcherRequest,
    StopFetcherRequest,
    ThreadOwnership,
)
from broker_runtime.wire.push.partition_text import partition_text

_ANSWER_BYTES = 1_100
"""Of an answer without offsets: mostly the consumer's id."""
_OFFSET_BYTES = 40
"""Of an offset in an answer, with a partition's text of any length, but for the topic's name."""
_CALLS_A_TURN = 50
"""To write and send so many takes about two milliseconds."""


class Outgoing:
    """Calls that wait to be sent, in their order, some in each turn of the loop: thousands may be decided at once."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, send: Callable[[], None]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send_some)
        self._waiting.append(send)

    def _send_some(self) -> None:
        waiting = self._waiting
        try:
            for _ in range(min(len(waiting), _CALLS_A_TURN)):
                waiting.popleft()()
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._send_some)


class Callee:
    """Holds calls back until the answer to the registration has been sent, which `release` says."""

    __slots__ = ("_held", "_image", "_offsets_bytes", "_outgoing", "connection", "consumer_id", "ended", "group_id")

    def __init__(
        self, group_id: str, consumer_id: str, connection: ServedConnection, image: MetadataImage, outgoing: Outgoing
    ) -> None:
        self.group_id = group_id
        self.consumer_id = consumer_id
        self.connection = connection
        self.ended: Callable[[], None] = nothing
        """Observes the end of the connection."""
        self._image = image
        self._outgoing = outgoing
        self._held: list[Call] | None = []
        """A few: nobody is called a second time before an answer, but for pings, and those take their time."""
        self._offsets_bytes = (0, 0)
        """What the offsets take that it may tell, by what it was told to read last, and before that."""

    @property
    def answer_bytes_max(self) -> int:
        """Of an answer about what it was told to read: a longer one is not worth the time to read it."""
        return _ANSWER_BYTES + max(self._offsets_bytes)

    def take(self, call: Call) -> None:
        if self._held is None:
            self._outgoing.add(partial(self._send, call))
        else:
            self._held.append(call)

    def release(self) -> None:
        held, self._held = self._held or [], None
        for call in held:
            self._outgoing.add(partial(self._send, call))

    def _send(self, call: Call) -> None:
        match call:
            case Ping(consumer_id, num_retries):
                self.connection.push(layouts.PING_REQUEST.write(PingRequest(consumer_id, num_retries)))
            case StopFetcher(consumer_id):
                self.connection.push(layouts.STOP_FETCHER_REQUEST.write(StopFetcherRequest(consumer_id)))
            case StartFetcher(_, threads):
                most = sum([_OFFSET_BYTES + len(at.topic) for _, parts in threads for at in parts])
                self._offsets_bytes = (most, self._offsets_bytes[0])
                self.connection.push(self._start(call))
            case HangUp(why):
                self.connection.refuse("push-hung-up", f"consumer {self.consumer_id[:100]!r}: {why}")

    def _start(self, call: StartFetcher) -> bytes:
        owned = tuple(
            ThreadOwnership(thread_id, tuple(self._part(at) for at in parts)) for thread_id, parts in call.threads
        )
        brokers = known_brokers(self._image, self.connection.listener)
        return layouts.START_FETCHER_REQUEST.write(StartFetcherRequest(call.consumer_id, owned, brokers))

    def _part(self, at: StartAt) -> PartitionOffset:
        """With who leads it now: topics may have gone since it was decided."""
        topic = self._image.topics.get(at.topic)
        partition = None if topic is None else topic.partitions.get(at.partition)
        leader = NO_LEADER if partition is None else partition.leader
        return PartitionOffset(at.topic, partition_text(leader, at.partition), at.offset)


def known_brokers(image: MetadataImage, listener: str) -> tuple[Broker, ...]:
    """Those that serve now, as clients of this listener reach them."""
    ends = ((broker, broker.endpoint(listener)) for broker in image.brokers.values() if not broker.fenced)
    return tuple(Broker(broker.id, end.host, end.port) for broker, end in ends if end is not None)


def nothing() -> None:
    """Nobody is registered."""
