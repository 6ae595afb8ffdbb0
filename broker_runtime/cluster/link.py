"""How a broker talks to the active controller: request bodies in, response bodies out.

Two links pass the same frames: over a socket to another process (`socket_link`), or straight into the controller's
dispatcher when this process is the controller too (`loopback_link`). What is on top of a link (registration, metadata,
forwarding) cannot tell which.

Of several controllers one is active. The others say NOT_CONTROLLER or hang up: then the link goes on to the next one,
round and round. A typed request goes round once, so that its sender knows soon; what a client sent is tried until its
time is over, as in Kafka, with a pause after each round. Both may reach a controller twice when a connection is lost.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from broker_runtime.config.endpoints import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.messages import Entity, Fields, decode_response, encode_request_body

_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 0.2


class ControllerLink(Protocol):
    """Requests to the controllers, of which one is asked at a time."""

    @property
    def choices(self) -> int:
        """Controllers that it may go to."""
        ...

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        """The response body; raises KafkaError(BROKER_NOT_AVAILABLE) when the controller cannot be reached."""
        ...

    @property
    def server(self) -> ServerAddress | None:
        """Whom it asks now; None where there is no choice."""
        ...

    def move_on(self) -> None:
        """The next request goes to the next controller."""
        ...

    def turn_to(self, server: ServerAddress) -> None:
        """That is the active controller: what waits for another one fails, and the next request goes there."""
        ...

    def close(self) -> None: ...


class ControllerClient:
    """Requests to the controller, typed or forwarded as they came."""

    def __init__(self, link: ControllerLink, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s

    @property
    def choices(self) -> int:
        """Controllers of which one may be active."""
        return self._link.choices

    async def request(self, api_key: int, version: int, content: Fields, timeout_s: float | None = None) -> Entity:
        body = memoryview(encode_request_body(api_key, version, content))
        async with self._deadline(timeout_s or self._timeout_s):
            for left in reversed(range(self._link.choices)):
                try:
                    answer = _decoded(api_key, version, await self._link.exchange(api_key, version, body))
                except KafkaError as error:
                    if error.code != ErrorCode.BROKER_NOT_AVAILABLE or not left:
                        raise
                    continue
                if getattr(answer, "error_code", None) != ErrorCode.NOT_CONTROLLER:
                    break
                self._link.move_on()
        return answer

    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        delay_s = _RETRY_DELAY_S
        async with self._deadline(self._timeout_s):
            while True:
                for _ in range(self.choices):
                    try:
                        return await self._link.exchange(api_key, version, body)
                    except KafkaError as error:
                        if error.code != ErrorCode.BROKER_NOT_AVAILABLE:
                            raise
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)

    @asynccontextmanager
    async def _deadline(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"the controller did not answer within {timeout_s:g} s"
            ) from None

    def move_on(self) -> None:
        """What was answered shows that this controller is not the active one."""
        self._link.move_on()

    def follow(self, other: "ControllerClient") -> None:
        """Go where the other one has found the active controller. One that hangs would be waited for in vain."""
        if other._link.server is not None:
            self._link.turn_to(other._link.server)

    def close(self) -> None:
        self._link.close()


def _decoded(api_key: int, version: int, body: memoryview) -> Entity:
    try:
        return decode_response(api_key, version, body)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer: {error}") from error
