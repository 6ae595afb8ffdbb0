"""The connection on which the coordinator calls the consumer. It authenticates again before its session ends (KIP-368).

Brokers end the connection at the first frame after the end of the session, and during an authentication they accept no
other frames. So answers to calls wait until the authentication is complete; it takes two round trips. Calls that come
meanwhile are returned as always. They begin with a type ID above 30,000, and responses with a small correlation ID.
"""

import asyncio

from kafka_bytes.frames import SIZE
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.closing import ClosingConnections
from sluicegate_consumer.connections.connection import FrameConnection
from sluicegate_consumer.errors import AuthenticationError, ProtocolError
from sluicegate_consumer.wire.kafka import Request

_AGAIN_S = 1.1
"""Shortest time between two authentications: brokers refuse to repeat one within a second."""


class CoordinatorConnection(FrameConnection):
    """The connection to the coordinator, which sends frames and receives calls.

    Raises AuthenticationError if the broker refuses to authenticate again.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        settings: Settings,
        closing: ClosingConnections | None = None,
    ) -> None:
        super().__init__(reader, writer, settings, closing)
        self._held: list[bytes] | None = None
        """Frames that wait for the end of an authentication; None without one. One for each call of the coordinator."""
        self._response: asyncio.Future[memoryview] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._failure: OSError | ProtocolError | AuthenticationError | None = None

    async def receive(self) -> memoryview:
        """Return the next frame that is not part of an authentication."""
        if self._renewing is None and self.expires_s != float("inf"):
            self._renewing = asyncio.create_task(self._renew())
        while True:
            try:
                frame = await super().receive()
            except OSError:
                if self._failure is not None:
                    raise self._failure from None
                raise
            if self._response is None or not self._is_response(frame):
                return frame
            if not self._response.done():
                self._response.set_result(frame[SIZE.size :])
            self._response = None

    def send(self, frame: bytes) -> None:
        """Send a frame, after the authentication if one has begun."""
        if self._held is None:
            super().send(frame)
        else:
            self._held.append(frame)

    def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        super().close()

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.expires_s != float("inf"):
                await asyncio.sleep(max(self.expires_s - loop.time(), _AGAIN_S))
                self._held = []
                await self._authenticate(self._ask)
                held, self._held = self._held, None
                for frame in held:
                    super().send(frame)
        except (OSError, ProtocolError, AuthenticationError) as error:
            # `receive` raises it.
            self._failure = error
            super().close()

    async def _ask(self, request: Request) -> memoryview:
        response: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._response = response
        super().send(self._framed(request))
        return await response
