"""Members of groups of the push protocol, each with a separate connection: they register once, and answer calls."""

import asyncio
import time
from collections.abc import Callable, Sequence
from uuid import uuid4

from benchmarks.groups import push_frames
from benchmarks.groups.group_members import MOVED, RETRY_S, Connection, Coordinators, Member, Pace
from benchmarks.groups.push_frames import Part

ID_TAKEN = 111
"""The coordinator has not yet noticed the end of the previous connection."""


class CalledConnection(Connection):
    """Frames that are not answers are calls. The connection immediately sends back what `called` returns for a call."""

    def __init__(self) -> None:
        super().__init__()
        self.called: Callable[[bytes], bytes] | None = None
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            end = int.from_bytes(self._buffer[:4], "big") + 4
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(frame)
            elif self.called is not None and self._transport is not None:
                self._transport.write(self.called(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.ended.set()


class PushMember(Member):
    """A member that is settled while its fetchers run. Each ping reports the offsets of its partitions, by default.

    It reads no records, so that the offsets do not change.
    """

    connection_kind = CalledConnection

    def __init__(self, group: str, topic: str, partitions: int, coordinators: Coordinators, pace: Pace) -> None:
        super().__init__(group, topic, partitions, coordinators, pace)
        self.member_id = str(uuid4())
        self._owned: Sequence[Part] = ()

    async def _take_part(self) -> None:
        connection = self._connection
        assert isinstance(connection, CalledConnection)
        connection.called = self._called
        try:
            await self._register(connection)
            await connection.ended.wait()
        finally:
            self._stopped()
        raise ConnectionError("the coordinator has hung up")

    async def _register(self, connection: Connection) -> None:
        frame = push_frames.register(self.group, self.member_id, self.topic, round(self._pace.session_s * 1000))
        while error := push_frames.read_registered(await connection.ask(frame)):
            if error in MOVED:
                raise ConnectionError("the coordinator has moved")
            if error != ID_TAKEN:
                raise RuntimeError(f"a registration in {self.group} was refused with error {error}")
            await asyncio.sleep(RETRY_S)

    def _called(self, call: bytes) -> bytes:
        kind = push_frames.type_of(call)
        self.answers += 1
        if kind == push_frames.PING:
            return push_frames.answer(kind, self.member_id, self._owned)
        if kind == push_frames.STOP_FETCHER:
            said = push_frames.answer(kind, self.member_id, self._owned)
            self._stopped()
            return said
        self._owned = [part._replace(offset=max(part.offset, 0)) for part in push_frames.read_start(call)]
        self.owned_count, self.settled_in, self.confirmed_s = len(self._owned), 0, time.perf_counter()
        return push_frames.answer(kind, self.member_id)

    def _stopped(self) -> None:
        self._owned, self.owned_count, self.settled_in = (), 0, -1

    async def leave(self) -> None:
        """Leave by closing the connection only."""
        self.close()
