"""A consumer on its connection, which the coordinator calls: calls become frames of the push protocol there."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from broker_runtime.errors import ProtocolError
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
_TURN_S = 0.002
"""After which others have their turn. So long, and not so many: a turn with much else in it would send too few."""


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
            now = asyncio.get_running_loop().time
            stop_s = now() + _TURN_S
            while waiting:
                waiting.popleft()()
                if now() >= stop_s:
                    break
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._send_some)


class Callee:
    """Holds calls back until the answer to the registration has been sent, which `release` says."""

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
        """Observes the end of the connection."""
        self._image = image
        self._outgoing = outgoing
        self._held: list[Call] | None = []
        """A few: nobody is called a second time before an answer, but for pings, and those take their time."""
        self._offsets_bytes = (0, 0)
        """What the offsets take that it may tell, by what it was told to read last, and before that."""
        self._unsent = 0
        """Calls that wait."""
        self._owed = 0
        """Calls that have left, and whose answers were not decided."""
        self._undecided = 0
        """Answers that wait for their decision."""

    @property
    def is_behind(self) -> bool:
        """As of `groups.push.calls.Calls`."""
        return self._unsent > 0 or self._undecided > 0 or self.connection.has_unread

    def answered(self) -> None:
        """An answer goes to be decided. Raises ProtocolError where more wait for that than were asked for, and one that
        was not, which is refused when it is decided: nobody fills the coordinator's queue."""
        if self._undecided > self._owed:
            raise ProtocolError("push-not-asked", "more was answered than was asked")
        self._undecided += 1

    def decided(self) -> None:
        """One that was `answered`."""
        self._undecided -= 1
        self._owed = max(self._owed - 1, 0)

    @property
    def answer_bytes_max(self) -> int:
        """Of an answer about what it was told to read: a longer one is not worth the time to read it."""
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
