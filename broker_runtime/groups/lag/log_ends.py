"""The ends of logs, from this broker's own replicas and by ListOffsets from the other leaders."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.groups.lag.metrics import Partition
from broker_runtime.groups.partition_leaders import PAGE, Link, PartitionLeaders
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import pages
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import LIST_OFFSETS

_VERSION = 7
_LATEST = -1
_CLIENT = -1
"""The replica id of a client: the end is the high watermark."""
_ANY_EPOCH = -1


class LogEndReader:
    """Reads the ends of partitions' logs from their leaders.

    Owns a connection to each broker that has been sent a request.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        own: Callable[[str, int], int | None],
        link_to: Callable[[int], Link],
        timeout_s: float,
    ) -> None:
        """`own` returns the high watermark of a partition that this broker leads, and None for others.

        `timeout_s` is the time limit of one request.
        """
        self._node_id = node_id
        self._own = own
        self._leaders = PartitionLeaders(image, link_to, timeout_s)

    async def of(self, partitions: Iterable[Partition]) -> tuple[dict[Partition, int], list[KafkaError]]:
        """Return the ends that could be read, and the errors of the leaders that did not answer.

        Partitions of deleted topics have no end.
        """
        ends: dict[Partition, int] = {}
        errors: list[KafkaError] = []
        for leader, of_leader in (await self._by_leader(partitions)).items():
            try:
                for page in pages(of_leader, PAGE):
                    ends |= self._own_ends(page) if leader == self._node_id else await self._asked(leader, page)
                    await asyncio.sleep(0)
            except KafkaError as error:
                errors.append(detached(error))
        return ends, errors

    def close(self) -> None:
        self._leaders.close()

    async def _by_leader(self, partitions: Iterable[Partition]) -> dict[int, dict[Partition, None]]:
        """Return each partition once, by leader and in the same order. The event loop runs in between."""
        led: dict[int, dict[Partition, None]] = {}
        for page in pages(partitions, PAGE):
            for partition in page:
                leader = self._leaders.leader(*partition)
                if leader is not None:
                    led.setdefault(leader, {})[partition] = None
            await asyncio.sleep(0)
        return led

    def _own_ends(self, page: Sequence[Partition]) -> dict[Partition, int]:
        found = ((partition, self._own(*partition)) for partition in page)
        return {partition: end for partition, end in found if end is not None}

    async def _asked(self, leader: int, page: Sequence[Partition]) -> dict[Partition, int]:
        """Send one request. Raises KafkaError. Partitions that the broker does not lead any more are left out."""
        topics: dict[str, list[Fields]] = {}
        for topic, index in page:
            asked = {"partition_index": index, "current_leader_epoch": _ANY_EPOCH, "timestamp": _LATEST}
            topics.setdefault(topic, []).append(asked)
        listed = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
        content = {"replica_id": _CLIENT, "isolation_level": 0, "topics": listed}
        answer = await self._leaders.ask(leader, LIST_OFFSETS, _VERSION, content)
        return {
            (topic.name, part.partition_index): part.offset
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code == ErrorCode.NONE
        }
