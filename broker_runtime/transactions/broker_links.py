"""Connections to other brokers for the requests of transactions: one request at a time to each. Shell."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.slicing.slices import Slices
from broker_runtime.wire.messages import Entity, Fields, decode_response_in_steps, encode_request_in_steps


class BrokerConnection(Protocol):
    """A connection to one broker, as implemented in `replication.peer`."""

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview: ...

    def close(self) -> None: ...


class BrokerLinks:
    """The connections for one kind of request, one to each broker that has been sent a request. Owns them."""

    def __init__(self, link_to: Callable[[int], BrokerConnection], timeout_s: float, slices: Slices) -> None:
        """`timeout_s` is the time limit of one request. Requests are encoded and answers decoded in `slices`."""
        self._link_to = link_to
        self._slices = slices
        self._timeout_s = timeout_s
        self._links: dict[int, BrokerConnection] = {}

    async def ask(self, broker_id: int, api_key: int, version: int, content: Fields) -> Entity:
        """Send a request with this content to the broker, and return its answer.

        Raises KafkaError(BROKER_NOT_AVAILABLE) if the broker cannot be reached, does not answer in time, or sends an
        invalid answer.
        """
        body = await self._slices.finish(encode_request_in_steps(api_key, version, content))
        found = await self._exchange(broker_id, api_key, version, body)
        try:
            return await self._slices.finish(decode_response_in_steps(api_key, version, found))
        except ProtocolError as error:
            self.drop(broker_id)
            text = f"broker {broker_id} sent an invalid answer to a request about transactions: {error}"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text) from error

    async def _exchange(self, broker_id: int, api_key: int, version: int, body: bytes) -> memoryview:
        if broker_id not in self._links:
            self._links[broker_id] = self._link_to(broker_id)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._links[broker_id].exchange(api_key, version, body)
        except TimeoutError:
            # The next requests on the same connection would wait, too.
            self.drop(broker_id)
            text = f"broker {broker_id} did not answer within {self._timeout_s:g} s"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text) from None

    def drop(self, broker_id: int) -> None:
        """Close the connection to a broker. The next request opens a new one."""
        link = self._links.pop(broker_id, None)
        if link is not None:
            link.close()

    def close(self) -> None:
        for broker_id in list(self._links):
            self.drop(broker_id)
