"""A consumer of the push protocol (decision 35): its coordinator calls it and assigns partitions.

It does not read records: an offset grows. Its topic has records at any offset. It follows the protocol, and is
sometimes slow.
"""

import asyncio
import struct
from typing import Any

from broker_runtime.errors import ErrorCode
from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherResponse,
)
from kafka_bytes.push.partition_text import read_partition
from tests.simulation.cluster.connection import Address
from tests.simulation.cluster.members.member import NOT_IN_A_GROUP, Member
from tests.simulation.cluster.members.push_line import Line, LineLost, open_line

_TYPE = struct.Struct(">h")
_SESSIONS_S = (3.0, 7.0)
"""Shorter and longer than the time until a broker is replaced as coordinator."""
_ANSWER_S = 3.0
_TICK_S = 0.15
SUBSCRIPTIONS = ('{{"{0}": 1}}', '{{"{0}": 2}}', "*1*({0}|temporary-.*)")


class PushMember(Member):
    """One life of a consumer. It may take the id of an earlier one, as a restarted process does."""

    _line: Line | None = None
    _heard_s = 0.0
    """Time of the coordinator's last call."""
    _stopped: tuple[dict[int, int], float] | None = None
    """The offsets that it reported at its last stop on this connection, and the time of that."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        rng = self.view.random
        self._at: dict[tuple[str, int], int] = {}
        """The last assignment of the member, with its current offsets."""
        self._subscription = rng.choice(SUBSCRIPTIONS).format(self.topic)
        self._consumer_id = self.name if rng.random() < 0.5 else self.name.partition("#")[0]
        self.session_s = rng.choice(_SESSIONS_S)
        self._starts = 0
        self._leaves = False

    @property
    def id(self) -> str:
        return self._consumer_id

    @property
    def epoch(self) -> int:
        """Zero: push groups have no epoch."""
        return 0

    async def turn(self) -> None:
        if self._line is None:
            await self._register()
        else:
            await self._serve(self._line)

    async def leave(self, *, for_a_while: bool) -> None:
        """Answer one more ping, and wait for the next: by then its offsets have arrived."""
        self._leaves, pings = True, 0
        while self._line is not None and pings < 2:
            pings += await self._serve(self._line) == own_keys.PING
        if self._line is not None:
            self._end("leaves")

    def go(self) -> None:
        """End this life; some lives end without closing the connection."""
        super().go()
        line, self._line = self._line, None
        self.own((), NOT_IN_A_GROUP, 0.0)
        if line is not None and self.view.random.random() < 0.6:
            line.close()

    def let_go_s(self) -> float | None:
        return None if self._line is None else self._line.let_go_s()

    # Registration

    async def _register(self) -> None:
        line: Line | None = None
        try:
            line = await open_line(await self._coordinator())
            fields = (self.ownership.group, self._consumer_id, self._subscription, True, "smallest")
            line.send(layouts.REGISTER_CONSUMER_REQUEST, RegisterConsumerRequest(*fields, round(self.session_s * 1000)))
            answer: RegisterConsumerResponse = await self._answer(line, layouts.REGISTER_CONSUMER_RESPONSE)
            if answer.error_code:
                self.heard("a registration", ErrorCode(answer.error_code))
                raise LineLost
        except LineLost:
            if line is not None:
                line.close()
            await self.pause()
            return
        self._line, self._heard_s, self._stopped = line, self.now(), None
        self._note(f"{self.name} is registered as {self._consumer_id} for {self._subscription}")

    async def _coordinator(self) -> Address:
        """Address of the coordinator. Raises LineLost."""
        line = await open_line(self.view.any_address())
        try:
            line.send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest(self.ownership.group))
            answer: ClusterMetadataResponse = await self._answer(line, layouts.CLUSTER_METADATA_RESPONSE)
        finally:
            line.close()
        for broker in answer.brokers_info:
            if broker.id == answer.coordinator_id:
                return broker.host, broker.port
        raise LineLost

    async def _answer(self, line: Line, layout: layouts.Layout[Any]) -> Any:
        frame = await line.receive(_ANSWER_S)
        if frame is None:
            raise LineLost
        return layout.read(memoryview(frame))

    # Calls of the coordinator

    async def _serve(self, line: Line) -> int | None:
        """Serve one call, or a while without one; return the type of the call."""
        left_s = self._heard_s + self.session_s - self.now()
        try:
            frame = await line.receive(min(self.view.random.uniform(0.02, _TICK_S), max(left_s, 0.0)))
        except LineLost:
            self._end("has lost its coordinator")
            return None
        if self.now() >= self._heard_s + self.session_s:
            self._end("suspects its coordinator")
            return None
        if frame is None:
            self._read()
            return None
        self._heard_s = self.now()
        (kind,) = _TYPE.unpack_from(frame)
        if kind == own_keys.PING:
            self.own(self.owned, self.term, self._heard_s)
            told = self._tell()
            line.send(layouts.PING_RESPONSE, PingResponse(0, self._consumer_id, told))
        elif kind == own_keys.STOP_FETCHER:
            await self._stop(line)
        else:
            await self._start(line, layouts.START_FETCHER_REQUEST.read(memoryview(frame)))
        return int(kind)

    async def _stop(self, line: Line) -> None:
        self._moment("is told to stop", line.host)
        await self._dawdle()
        if self._line is not line or self._suspects():
            return
        told = self._tell()
        self._stopped = {part: at for (topic, part), at in self._at.items() if topic == self.topic}, self.now()
        self.own((), "stopped", 0.0)
        line.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, self._consumer_id, told))
        self._moment("has stopped", line.host)

    async def _start(self, line: Line, start: StartFetcherRequest) -> None:
        self._moment("is told to start", line.host)
        parts = [part for thread in start.ownership_info for part in thread.assigned_parts]
        self._at = {(part.topic, read_partition(part.partition)[1]): part.offset for part in parts}
        if self._stopped is not None:
            told, stopped_s = self._stopped
            self._stopped = None
            self.ownership.stop_was_taken(told, stopped_s)
        self._starts += 1
        owned = {part: at for (topic, part), at in self._at.items() if topic == self.topic}
        if not self._leaves:
            self.own(owned, f"start {self._starts} of {self._consumer_id}", self._heard_s)
        if line.let_go_s() is None:
            for partition, offset in owned.items():
                self.ownership.is_started(partition, offset)
        await self._dawdle()
        if self._line is line and not self._suspects():
            line.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, self._consumer_id))
            self._moment("has started", line.host)

    async def _dawdle(self) -> None:
        """Wait sometimes; a few waits are longer than allowed."""
        rng = self.view.random
        most_s = rng.choices((0.0, 0.1, 0.8 * self.session_s), (60, 20, 1))[0]
        if not self.quiet and most_s:
            await asyncio.sleep(rng.uniform(0.0, most_s))

    def _suspects(self) -> bool:
        if self.now() < self._heard_s + self.session_s:
            return False
        self._end("suspects its coordinator")
        return True

    def _tell(self) -> tuple[PartitionOffset, ...]:
        for (topic, partition), at in self._at.items():
            if topic == self.topic:
                self.ownership.is_told(partition, at)
        return tuple(PartitionOffset(topic, str(part), at) for (topic, part), at in self._at.items())

    def _read(self) -> None:
        if self.quiet:
            return
        for partition in sorted(self.owned):
            begin = self._at[self.topic, partition]
            end = max(begin, 0) + self.view.random.randrange(3)
            self.ownership.has_read(partition, begin, end)
            self._at[self.topic, partition] = end

    def _end(self, why: str) -> None:
        """Stop the fetchers, and close the connection."""
        assert self._line is not None
        self._note(f"{self.name} {why}")
        if self.owned:
            until_s = min(self.now(), self._heard_s + self.session_s)
            self.ownership.noticed(self.name, until_s, self._line.let_go_s(), self.session_s)
        self.own((), NOT_IN_A_GROUP, 0.0)
        self._line.close()
        self._line, self._at, self._stopped = None, {}, None
