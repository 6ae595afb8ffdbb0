"""A broker's requests to the active controller: request bodies in, response bodies out.

Two links pass the same frames: over a socket to another process (`socket_link`), or directly into the dispatcher of a
controller in this process (`loopback_link`). The layers above a link (registration, metadata, forwarding) do not depend
on which it is.

One of several controllers is active. The others answer NOT_CONTROLLER or close the connection; then the link tries the
next one, round robin. A typed request is tried once with each controller, so that its sender gets an error soon. A
forwarded client request is retried until its timeout, as in Kafka, with a pause after each round. Both may reach a
controller twice if a connection is lost.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from broker_runtime.config.declaring.endpoints import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.messages import Entity, Fields, decode_response, encode_request_body
from broker_runtime.wire.reply import Parts, joined

_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 0.2


class ControllerLink(Protocol):
    """A link to the controllers, of which one is asked at a time."""

    @property
    def choices(self) -> int:
        """Return the number of controllers to choose from."""
        ...

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> Parts:
        """Send a request to the active controller, and return the body of the response.

        Raises KafkaError(BROKER_NOT_AVAILABLE) if the controller cannot be reached.
        """
        ...

    @property
    def server(self) -> ServerAddress | None:
        """Return the controller that is asked now; None without a choice."""
        ...

    def move_on(self) -> None:
        """Send the next request to the next controller."""
        ...

    def turn_to(self, server: ServerAddress) -> None:
        """Use this server as the active controller.

        Requests pending at another server fail, and the next request goes to this one.
        """
        ...

    def close(self) -> None: ...


class ControllerClient:
    """Sends requests to the controller, typed or forwarded unchanged."""

    def __init__(self, link: ControllerLink, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s

    @property
    def choices(self) -> int:
        """Return the number of controllers of which one may be active."""
        return self._link.choices

    async def request(self, api_key: int, version: int, content: Fields, timeout_s: float | None = None) -> Entity:
        body = memoryview(encode_request_body(api_key, version, content))
        async with self._deadline(timeout_s or self._timeout_s):
            for left in reversed(range(self._link.choices)):
                try:
                    answer = _decoded(api_key, version, joined(await self._link.exchange(api_key, version, body)))
                except KafkaError as error:
                    if error.code != ErrorCode.BROKER_NOT_AVAILABLE or not left:
                        raise
                    continue
                if getattr(answer, "error_code", None) != ErrorCode.NOT_CONTROLLER:
                    break
                self._link.move_on()
        return answer

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
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
        """Try the next controller, because an answer shows that this one is not active."""
        self._link.move_on()

    def follow(self, other: "ControllerClient") -> None:
        """Use the active controller that the other client has found, instead of waiting for a controller that hangs."""
        if other._link.server is not None:
            self._link.turn_to(other._link.server)

    def close(self) -> None:
        self._link.close()


def _decoded(api_key: int, version: int, body: memoryview) -> Entity:
    try:
        return decode_response(api_key, version, body)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's response is invalid: {error}") from error
