"""Members of groups that send raw frames, each with a separate connection: of the classic protocol and of KIP-848."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from itertools import count
from random import uniform
from typing import cast
from uuid import uuid4

from benchmarks.groups import group_frames
from benchmarks.groups.group_frames import Owned, Place

HEARTBEAT_S = 3.0
"""Interval of classic members, the default of clients. The broker decides the interval of KIP-848 members."""
SESSION_S = 45.0
"""Session timeout, the default of clients."""
RETRY_S = 0.1
"""Time between attempts to find a coordinator, the default of clients; doubled after each failed attempt."""
_RETRY_MAX_S = 1.0
"""Longest time between attempts, the default of clients (retry.backoff.max.ms)."""
COMMITTED_PARTITIONS = 10
MOVED = (14, 15, 16)
"""The coordinator is loading, or another broker is the coordinator."""
UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING, MEMBER_ID_REQUIRED, FENCED_EPOCH = 25, 22, 27, 79, 110
_sources = count()


class Connection(asyncio.Protocol):
    """A connection with one request in flight. After it has ended, requests raise ConnectionError."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, host: str, port: int) -> "Connection":
        loop = asyncio.get_running_loop()
        # Use many source addresses, so that neither ports nor limits of one address bound the measurement.
        source = (f"127.0.5.{next(_sources) % 200 + 1}", 0)
        _, connection = await loop.create_connection(cls, host, port, local_addr=source)
        return connection

    async def ask(self, frame: bytes) -> bytes:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the connection has ended")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is not asyncio's.

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        size = int.from_bytes(self._buffer[:4], "big")
        if len(self._buffer) < max(size + 4, 8):
            return
        answer, self._buffer = self._buffer[4 : size + 4], self._buffer[size + 4 :]
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the broker has closed the connection"))


class Coordinators:
    """Location of each group's coordinator. Members of a group share one lookup at a time."""

    def __init__(self, brokers: Sequence[tuple[str, int]]) -> None:
        self._brokers = brokers
        self._looks: dict[str, asyncio.Task[Place]] = {}

    async def of(self, group: str) -> Place:
        """Return the group's coordinator. Retries until one is found."""
        if group not in self._looks:
            self._looks[group] = asyncio.create_task(self._look(group))
        return await asyncio.shield(self._looks[group])

    def forget(self, group: str) -> None:
        look = self._looks.get(group)
        if look is not None and look.done():
            del self._looks[group]

    async def _look(self, group: str) -> Place:
        while True:
            for host, port in self._brokers:
                with contextlib.suppress(OSError):
                    connection = await Connection.open(host, port)
                    try:
                        place = group_frames.read_coordinator(
                            await connection.ask(group_frames.find_coordinator(group))
                        )
                    finally:
                        connection.close()
                    if not place.error:
                        return place
            await asyncio.sleep(RETRY_S)


class Pace:
    """The pace of requests: a heartbeat in each interval, or during `hurry` one request after another."""

    def __init__(self, interval_s: float | None = None, session_s: float = SESSION_S) -> None:
        """`interval_s` is the heartbeat interval; None is the protocol's. The broker decides sessions of KIP-848."""
        self._interval_s = interval_s
        self.session_s = session_s
        self._hurry = asyncio.Event()
        self.commits = False
        """Whether hurrying members commit; otherwise they send heartbeats."""

    async def rest(self, interval_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval_s if self._interval_s is None else self._interval_s):
                await self._hurry.wait()

    @contextlib.contextmanager
    def hurry(self, commits: bool) -> Iterator[None]:
        self.commits = commits
        self._hurry.set()
        try:
            yield
        finally:
            self._hurry.clear()
            self.commits = False


class Member:
    """Common part of members of all protocols.

    `settled_in` is the generation or epoch in which the member has its partitions.
    """

    connection_kind: type[Connection] = Connection

    def __init__(self, group: str, topic: str, partitions: int, coordinators: Coordinators, pace: Pace) -> None:
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.member_id = ""
        self.settled_in = -1
        self.owned_count = 0
        self.confirmed_s = 0.0
        """Time when the coordinator last answered without an error."""
        self.watched: list[float] | None = None
        """If set, the list that receives the duration of each heartbeat."""
        self.answers = 0
        """Number of answers to heartbeats and commits."""
        self._retry_s = RETRY_S
        self._coordinators = coordinators
        self._pace = pace
        self._connection: Connection | None = None

    async def connect(self) -> None:
        while True:
            place = await self._coordinators.of(self.group)
            try:
                self._connection = await self.connection_kind.open(place.host, place.port)
            except OSError:
                await self._look_again()
            else:
                return

    async def run(self) -> None:
        """Take part in the group until cancelled."""
        while True:
            answers = self.answers
            try:
                if self._connection is None:
                    await self.connect()
                await self._take_part()
            except ConnectionError:
                if self.answers > answers:
                    self._retry_s = RETRY_S
                await self._look_again()

    async def ask(self, frame: bytes) -> bytes:
        if self._connection is None:
            raise ConnectionError("there is no connection")
        return await self._connection.ask(frame)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _look_again(self) -> None:
        self.close()
        self._connection = None
        self._coordinators.forget(self.group)
        await asyncio.sleep(self._retry_s * uniform(0.8, 1.2))
        self._retry_s = min(2 * self._retry_s, _RETRY_MAX_S)

    async def _take_part(self) -> None:
        """Take part. Returns or raises ConnectionError if the coordinator may have changed."""
        raise NotImplementedError

    async def beat(self) -> int:
        """Send one heartbeat, and return the error code of its answer."""
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    async def timed_beat(self) -> int:
        began = time.perf_counter()
        error = await self.beat()
        now = time.perf_counter()
        self.answers += 1
        if self.watched is not None:
            self.watched.append(now - began)
        if not error:
            self.confirmed_s = now
        return error


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; the leader gives each member the same number of partitions."""

    async def _take_part(self) -> None:
        if self.settled_in < 0:
            await self._join()
        while self.settled_in >= 0:
            error = await (self._commit() if self._pace.commits else self.timed_beat())
            if error in MOVED:
                raise ConnectionError("the coordinator has moved")
            if error == UNKNOWN_MEMBER:
                self.member_id = ""
            if error:
                self.settled_in = -1
                return
            await self._pace.rest(HEARTBEAT_S)

    async def beat(self) -> int:
        return group_frames.read_error(
            await self.ask(group_frames.heartbeat(self.group, self.settled_in, self.member_id))
        )

    async def leave(self) -> None:
        self.settled_in = -1
        await self.ask(group_frames.leave(self.group, self.member_id))
        self.member_id = ""

    async def _commit(self) -> int:
        self.answers += 1
        partitions = range(min(COMMITTED_PARTITIONS, self.partitions))
        frame = group_frames.commit(self.group, self.settled_in, self.member_id, self.topic, partitions, self.answers)
        return group_frames.read_commit_error(await self.ask(frame))

    async def _join(self) -> None:
        metadata, session_ms = group_frames.subscription(self.topic), round(self._pace.session_s * 1000)
        while True:
            frame = group_frames.join(self.group, self.member_id, session_ms, metadata)
            joined = group_frames.read_joined(await self.ask(frame))
            if joined.error in MOVED:
                raise ConnectionError("the coordinator has moved")
            if joined.error:
                self.member_id = joined.member_id if joined.error == MEMBER_ID_REQUIRED else ""
                continue
            self.member_id = joined.member_id
            sync = group_frames.sync(self.group, joined.generation, self.member_id, self._assignments(joined.members))
            error, assignment = group_frames.read_synced(await self.ask(sync))
            if error in MOVED:
                raise ConnectionError("the coordinator has moved")
            if error == UNKNOWN_MEMBER:
                self.member_id = ""
            if not error:
                self.settled_in, self.owned_count = joined.generation, int(bool(assignment))
                self.confirmed_s = time.perf_counter()
                return

    def _assignments(self, members: Sequence[str]) -> dict[str, bytes]:
        each = [range(number, self.partitions, len(members)) for number in range(len(members))]
        return {
            member_id: group_frames.partitions_of(self.topic, partitions)
            for member_id, partitions in zip(members, each, strict=True)
        }


class ConsumerMember(Member):
    """ConsumerGroupHeartbeat only.

    The member takes and releases partitions immediately, and reports that immediately.
    """

    def __init__(self, group: str, topic: str, partitions: int, coordinators: Coordinators, pace: Pace) -> None:
        super().__init__(group, topic, partitions, coordinators, pace)
        self.member_id = str(uuid4())
        self._epoch = 0
        self._owned: Owned = {}
        self._interval_s = HEARTBEAT_S
        self._says_all = True

    async def _take_part(self) -> None:
        while True:
            error = await self.timed_beat()
            if error in MOVED:
                raise ConnectionError("the coordinator has moved")
            if error in (UNKNOWN_MEMBER, FENCED_EPOCH):
                self._start_over()
            elif error:
                raise RuntimeError(f"a heartbeat of {self.group} was refused with error {error}")
            elif not self._says_all:
                await self._pace.rest(self._interval_s)

    async def beat(self) -> int:
        """Send a heartbeat, a full one if something changed."""
        topic, owned = (self.topic, self._owned) if self._says_all else (None, None)
        frame = group_frames.consumer_heartbeat(self.group, self.member_id, self._epoch, topic, owned)
        beat = group_frames.read_beat(await self.ask(frame))
        if not beat.error:
            self._epoch, self._interval_s, self._says_all = beat.epoch, beat.interval_s, False
            if beat.assignment is not None and beat.assignment != self._owned:
                self._owned, self._says_all = beat.assignment, True
                self.owned_count = sum(map(len, self._owned.values()))
            self.settled_in = self._epoch
        return beat.error

    async def leave(self) -> None:
        await self.ask(group_frames.consumer_heartbeat(self.group, self.member_id, -1))
        self._start_over()

    def _start_over(self) -> None:
        self._epoch, self._owned, self._says_all = 0, {}, True
        self.settled_in, self.owned_count = -1, 0


def settled(members: Sequence[Member]) -> bool:
    """Return whether all members of a group have the same generation or epoch, and their share of the partitions."""
    if members[0].settled_in < 0 or len({member.settled_in for member in members}) > 1:
        return False
    if isinstance(members[0], ClassicMember):
        return True
    each, extra = divmod(members[0].partitions, len(members))
    counts = [member.owned_count for member in members]
    return min(counts) >= each and max(counts) <= each + (extra > 0) and sum(counts) == members[0].partitions
