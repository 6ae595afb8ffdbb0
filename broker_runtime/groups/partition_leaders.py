"""Requests that a coordinator sends to the leaders of partitions, over its own connections."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import Entity, Fields, decode_response, encode_request_body

PAGE = 250
"""Limit of the partitions in one request and in one iteration of the event loop: encoding them takes 1 ms."""


class Link(Protocol):
    """A connection to one broker, as implemented in `replication.peer`."""

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview: ...

    def close(self) -> None: ...


class PartitionLeaders:
    """Connections to the leaders of partitions, one to each broker that has been sent a request."""

    def __init__(self, image: MetadataImage, link_to: Callable[[int], Link], timeout_s: float) -> None:
        """`timeout_s` is the time limit of one request."""
        self._image = image
        self._link_to = link_to
        self._timeout_s = timeout_s
        self._links: dict[int, Link] = {}

    def leader(self, topic: str, index: int) -> int | None:
        """Return the id of the leader; None if the partition has no leader or does not exist."""
        known = self._image.topics.get(topic)
        partition = None if known is None else known.partitions.get(index)
        return None if partition is None or partition.leader < 0 else partition.leader

    async def ask(self, leader: int, api_key: int, version: int, content: Fields) -> Entity:
        """Send the request to the leader and return its response.

        Raises KafkaError if the leader cannot be reached or does not answer in time.
        """
        if leader not in self._links:
            self._links[leader] = self._link_to(leader)
        try:
            async with asyncio.timeout(self._timeout_s):
                body = encode_request_body(api_key, version, content)
                answer = await self._links[leader].exchange(api_key, version, body)
            return decode_response(api_key, version, answer)
        except (TimeoutError, ProtocolError) as error:
            # The next requests on the same connection would fail too.
            self._links.pop(leader).close()
            why = str(error) or f"no response within {self._timeout_s:g} s"
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {leader} did not return log end offsets: {why}"
            ) from error

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()
