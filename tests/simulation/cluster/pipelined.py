"""An idempotent producer with several batches in flight to a partition, like Kafka's own clients.

Batches that were refused or not answered are sent again, in order. At most the five batches that a broker remembers are
in flight. A batch behind a refused one may be out of order; no other may. The producer keeps its epoch in every case.
"""

import asyncio
from collections import deque
from typing import Any

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import Fields, decode_response
from broker_runtime.wire.versions import PRODUCE
from tests.simulation.cluster.client import FATAL, PRODUCE_VERSION, Producer, Sent
from tests.simulation.cluster.connection import Address, Unanswered
from tests.support.requests.request_frames import encode_request

_IN_FLIGHT = 5
_ANSWERED_WITHIN_S = 3.0
_APART_S = 0.01
"""Longest pause between two batches of a burst: conditions may change between them."""


class _Answers(asyncio.Protocol):
    """Answers in the order of the requests."""

    def __init__(self) -> None:
        self.lost = False
        self.transport: Any = None
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self, frame: bytes) -> asyncio.Future[bytes]:
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self.transport.write(frame)
        return waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            self._waiting.popleft().set_result(bytes(self._buffer[:end]))
            del self._buffer[:end]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        while self._waiting:
            self._waiting.popleft().cancel()


class PipelinedProducer(Producer):
    async def run(self) -> None:
        rng = self._view.random
        self._answers: _Answers | None = None
        self._to: Address | None = None
        self._failed = False
        await self._take_id()
        window: deque[tuple[int, Sent]] = deque()
        while (window or not self.stopped) and not (self.lane.abandoned or self._failed):
            # A broker accepts any sequence of an unknown producer: the first batch goes alone.
            is_known = bool(self.lane.batches) and self.lane.batches[0].acknowledged
            while not self.stopped and len(window) < (_IN_FLIGHT if is_known else 1):
                window.append((self._sequence, batch := self._next()))
                self._sequence += len(batch.values)
                self.lane.batches.append(batch)
            await self._burst([(sequence, batch) for sequence, batch in window if not batch.acknowledged])
            while window and window[0][1].acknowledged:
                window.popleft()
            await asyncio.sleep(rng.uniform(0.0, self._pause_max_s if not window else 0.1))

    async def _burst(self, batches: list[tuple[int, Sent]]) -> None:
        """Send batches one after the other without waiting for answers; then process the answers."""
        await self._view.leader_known(self.lane.key)
        asked: list[tuple[Sent, asyncio.Future[bytes]]] = []
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                leader, answers = await self._connected()
                for number, (sequence, batch) in enumerate(batches):
                    batch.attempts += 1
                    frame = encode_request(PRODUCE, PRODUCE_VERSION, number, self._request_of(sequence, batch))
                    asked.append((batch, answers.ask(frame)))
                    await asyncio.sleep(self._view.random.uniform(0.0, _APART_S))
                await asyncio.wait([answer for _, answer in asked])
        except (TimeoutError, OSError, Unanswered):
            self._give_up()
            return
        self._take(leader, asked)

    def _request_of(self, sequence: int, batch: Sent) -> Fields:
        following, self._sequence = self._sequence, sequence
        try:
            return self._request(batch)
        finally:
            self._sequence = following

    async def _connected(self) -> tuple[int, _Answers]:
        leader, address = self._view.address_of_leader(self.lane.key)
        if self._answers is None or self._answers.lost or self._to != address:
            self._give_up_connection()
            _, self._answers = await asyncio.get_running_loop().create_connection(_Answers, *address)
            self._to = address
        return leader, self._answers

    def _take(self, leader: int, asked: list[tuple[Sent, asyncio.Future[bytes]]]) -> None:
        all_taken = True
        for batch, answer in asked:
            code, base_offset = _outcome(answer)
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                batch.acknowledged, batch.base_offset, batch.broker = True, base_offset, leader
                continue
            follows_refused = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not all_taken
            if code in FATAL and not follows_refused and not self.lane.abandoned:
                self._wrong(f"{self.lane.name}: batch {batch.values[0][:40]!r} was refused with {code.name}")
                self._failed = True
            all_taken = False
        if not all_taken:
            self._view.leaders.pop(self.lane.key, None)

    def _give_up(self) -> None:
        self._give_up_connection()
        self._view.leaders.pop(self.lane.key, None)

    def _give_up_connection(self) -> None:
        if self._answers is not None:
            self._answers.transport.abort()
            self._answers = None


def _outcome(answer: asyncio.Future[bytes]) -> tuple[ErrorCode, int]:
    """Error code and offset of an answer; after a lost connection, a code that means that the batch may be stored."""
    if answer.cancelled():
        return ErrorCode.REQUEST_TIMED_OUT, -1
    body = memoryview(answer.result())[len(response_prefix(PRODUCE, PRODUCE_VERSION, 0, 0)) :]
    part = decode_response(PRODUCE, PRODUCE_VERSION, body).responses[0].partition_responses[0]
    return ErrorCode(int(part.error_code)), int(part.base_offset)
