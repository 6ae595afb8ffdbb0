"""Where logs end: by this broker's own replicas, and by ListOffsets of the brokers that lead the others."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError, detached
from broker_runtime.groups.lag.figures import Partition, pages
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import Entity, Fields, decode_response, encode_request_body
from broker_runtime.wire.versions import LIST_OFFSETS

_VERSION = 7
_LATEST = -1
_CLIENT = -1
"""As a client asks: up to the high watermark."""
_ANY_EPOCH = -1
_PAGE = 250
"""Partitions of one request, and of one turn of the event loop: encoding it takes 1 ms."""


class Link(Protocol):
    """A way to one broker, as `replication.peer` has it."""

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview: ...

    def close(self) -> None: ...


class LogEnds:
    """Owns a connection to each broker that it has had to ask."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        own: Callable[[str, int], int | None],
        link_to: Callable[[int], Link],
        timeout_s: float,
    ) -> None:
        """`own` is the high watermark of a partition that this broker leads, None of another one; `timeout_s` of one
        request."""
        self._node_id = node_id
        self._image = image
        self._own = own
        self._link_to = link_to
        self._timeout_s = timeout_s
        self._links: dict[int, Link] = {}

    async def of(self, partitions: Iterable[Partition]) -> tuple[dict[Partition, int], list[KafkaError]]:
        """Those that could be had, and why others could not. Partitions of topics that are gone are in neither."""
        ends: dict[Partition, int] = {}
        errors: list[KafkaError] = []
        for leader, of_leader in (await self._by_leader(partitions)).items():
            try:
                for page in pages(of_leader, _PAGE):
                    ends |= self._own_ends(page) if leader == self._node_id else await self._asked(leader, page)
                    await asyncio.sleep(0)
            except KafkaError as error:
                errors.append(detached(error))
        return ends, errors

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def _by_leader(self, partitions: Iterable[Partition]) -> dict[int, dict[Partition, None]]:
        """Each once, in their order; others have their turns meanwhile."""
        led: dict[int, dict[Partition, None]] = {}
        for page in pages(partitions, _PAGE):
            for partition in page:
                leader = self._leader(partition)
                if leader is not None:
                    led.setdefault(leader, {})[partition] = None
            await asyncio.sleep(0)
        return led

    def _leader(self, partition: Partition) -> int | None:
        topic = self._image.topics.get(partition[0])
        known = None if topic is None else topic.partitions.get(partition[1])
        return None if known is None or known.leader < 0 else known.leader

    def _own_ends(self, page: Sequence[Partition]) -> dict[Partition, int]:
        found = ((partition, self._own(*partition)) for partition in page)
        return {partition: end for partition, end in found if end is not None}

    async def _asked(self, leader: int, page: Sequence[Partition]) -> dict[Partition, int]:
        """Without those that it does not lead any more. Raises KafkaError."""
        topics: dict[str, list[Fields]] = {}
        for topic, index in page:
            asked = {"partition_index": index, "current_leader_epoch": _ANY_EPOCH, "timestamp": _LATEST}
            topics.setdefault(topic, []).append(asked)
        listed = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
        content = {"replica_id": _CLIENT, "isolation_level": 0, "topics": listed}
        answer = await self._answer(leader, encode_request_body(LIST_OFFSETS, _VERSION, content))
        return {
            (topic.name, part.partition_index): part.offset
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code == ErrorCode.NONE
        }

    async def _answer(self, leader: int, body: bytes) -> Entity:
        """Raises KafkaError."""
        if leader not in self._links:
            self._links[leader] = self._link_to(leader)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._links[leader].exchange(LIST_OFFSETS, _VERSION, body)
            return decode_response(LIST_OFFSETS, _VERSION, answer)
        except (TimeoutError, ProtocolError) as error:
            # What waits behind it on the same connection is no better.
            self._links.pop(leader).close()
            why = str(error) or f"no answer within {self._timeout_s:g} s"
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {leader} does not say where logs end: {why}"
            ) from error
