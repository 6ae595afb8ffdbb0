"""A consumer that the coordinator calls: turns the calls into frames of the push protocol on its connection."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from broker_runtime.errors import ProtocolError
from broker_runtime.groups.push.state.calls import Call, HangUp, Ping, StartAt, StartFetcher, StopFetcher
from broker_runtime.metadata.areas.topics import NO_LEADER
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.handler import ServedConnection
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    Broker,
    PartitionOffset,
    PingRequest,
    StartFetcherRequest,
    StopFetcherRequest,
    ThreadOwnership,
)
from kafka_bytes.push.partition_text import partition_text

_ANSWER_BYTES = 1_100
"""Maximum size of an answer without offsets: mostly the consumer's id."""
_OFFSET_BYTES = 40
"""Maximum size of an offset in an answer, with a partition text of any length, without the topic's name."""
_SLICE_S = 0.002
"""Time after which other tasks run. A limit on the number of calls would send too few in a busy iteration."""


class Outgoing:
    """A queue of calls of this broker to push consumers.

    Some are sent in each iteration of the event loop: thousands may be decided at once.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, send: Callable[[], None]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send_some)
        self._waiting.append(send)

    def _send_some(self) -> None:
        waiting = self._waiting
        try:
            now = asyncio.get_running_loop().time
            stop_s = now() + _SLICE_S
            while waiting:
                waiting.popleft()()
                if now() >= stop_s:
                    break
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._send_some)


class Callee:
    """The connection to one push consumer, on which the broker calls it.

    Calls are delayed until `release`, after the answer to the registration was sent.
    """

    __slots__ = (
        "_held",
        "_image",
        "_offsets_bytes",
        "_outgoing",
        "_owed",
        "_undecided",
        "_unsent",
        "connection",
        "consumer_id",
        "ended",
        "group_id",
    )

    def __init__(
        self, group_id: str, consumer_id: str, connection: ServedConnection, image: MetadataImage, outgoing: Outgoing
    ) -> None:
        self.group_id = group_id
        self.consumer_id = consumer_id
        self.connection = connection
        self.ended: Callable[[], None] = nothing
        """Called when the connection ends."""
        self._image = image
        self._outgoing = outgoing
        self._held: list[Call] | None = []
        """Delayed calls. They are few: before an answer only pings are repeated, and those are infrequent."""
        self._offsets_bytes = (0, 0)
        """Maximum size of the offsets in an answer, for the last assignment sent and for the one before."""
        self._unsent = 0
        """Number of calls that wait to be sent."""
        self._owed = 0
        """Number of calls that were sent and whose answers are not decided yet."""
        self._undecided = 0
        """Number of answers that wait for their decision."""

    @property
    def is_behind(self) -> bool:
        """Return whether this broker is late rather than the consumer, see `groups.push.state.calls.Calls`."""
        return self._unsent > 0 or self._undecided > 0 or self.connection.has_unread

    def answered(self) -> None:
        """Count an answer that waits for its decision.

        Raises ProtocolError if more answers wait than calls were sent. One excess answer is accepted here, and refused
        when it is decided. So a consumer cannot fill the coordinator's queue.
        """
        if self._undecided > self._owed:
            raise ProtocolError("push-not-asked", "more responses arrived than calls were sent")
        self._undecided += 1

    def decided(self) -> None:
        """Record that an answer counted by `answered` is decided."""
        self._undecided -= 1
        self._owed = max(self._owed - 1, 0)

    @property
    def answer_bytes_max(self) -> int:
        """Return the maximum size of an answer about the consumer's assignment.

        A larger answer is refused without reading it.
        """
        return _ANSWER_BYTES + max(self._offsets_bytes)

    def take(self, call: Call) -> None:
        self._unsent += 1
        if self._held is None:
            self._outgoing.add(partial(self._send, call))
        else:
            self._held.append(call)

    def release(self) -> None:
        held, self._held = self._held or [], None
        for call in held:
            self._outgoing.add(partial(self._send, call))

    def _send(self, call: Call) -> None:
        self._unsent -= 1
        self._owed += 1
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
        """Return the partition with its current leader. The topic may have been deleted since the decision."""
        topic = self._image.topics.get(at.topic)
        partition = None if topic is None else topic.partitions.get(at.partition)
        leader = NO_LEADER if partition is None else partition.leader
        return PartitionOffset(at.topic, partition_text(leader, at.partition), at.offset)


def known_brokers(image: MetadataImage, listener: str) -> tuple[Broker, ...]:
    """Return the unfenced brokers that have this listener, with the listener's addresses for clients."""
    ends = ((broker, broker.endpoint(listener)) for broker in image.brokers.values() if not broker.fenced)
    return tuple(Broker(broker.id, end.host, end.port) for broker, end in ends if end is not None)


def nothing() -> None:
    """Do nothing: the end of a connection without a registered consumer."""
