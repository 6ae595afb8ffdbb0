"""Groups of a whole cluster: each request goes to the right broker, and is repeated when that broker changes.

A coordinator that moves, loads or does not exist yet is waited for, up to `patience_s` for each request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from kio.schema.errors import ErrorCode

from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.errors import (
    AdminConnectionError,
    KafkaAdminError,
    KafkaApiError,
    UnsupportedApiError,
    only,
)
from sluicegate_operator.kafka_admin.groups.group_views import GroupListing, GroupView
from sluicegate_operator.kafka_admin.views import Partition

Answer = TypeVar("Answer")

PATIENCE_S = 15.0
PAUSE_S = 0.1
PASSING = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
"""Errors while a coordinator moves. Nothing was done, so the request may be repeated.

They come from a coordinator, or from a broker that looks for one.
"""


class ConsumerGroups:
    """The groups of one cluster. All methods raise a KafkaAdminError."""

    def __init__(self, admin: AdminClient, patience_s: float = PATIENCE_S) -> None:
        self._admin = admin
        self._patience_s = patience_s

    async def all(self) -> list[GroupListing]:
        """Return the groups of all brokers, by id."""
        return await self._patiently(self._all)

    async def describe(self, group_id: str) -> GroupView:
        """Return the description of a group. The state of a missing group is Dead."""

        async def ask(coordinator: BrokerHandle) -> GroupView:
            try:
                return await coordinator.describe_consumer_group(group_id)
            except UnsupportedApiError:
                return await coordinator.describe_classic_group(group_id)
            except KafkaApiError as error:
                if error.code != ErrorCode.group_id_not_found:
                    raise
                return await coordinator.describe_classic_group(group_id)

        return await self._of_coordinator(group_id, ask)

    async def committed(self, group_id: str) -> dict[Partition, int]:
        return await self._of_coordinator(group_id, lambda coordinator: coordinator.fetch_offsets(group_id))

    async def commit(self, group_id: str, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
        """Commit offsets of a group. Return Kafka's name of the error for each refused partition."""
        return await self._of_coordinator(group_id, lambda coordinator: coordinator.commit_offsets(group_id, offsets))

    async def delete(self, group_id: str) -> None:
        """Delete a group of consumers. The request is not repeated if its outcome is unknown."""
        await self._of_coordinator(
            group_id, lambda coordinator: coordinator.delete_group(group_id), again_when_lost=False
        )

    async def log_offsets(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int]:
        """Return offsets like `offsets.list_offsets`, without partitions that are gone or have no leader."""
        return await self._patiently(lambda: self._log_offsets(partitions, time_ms))

    async def partitions_of(self, topics: Collection[str]) -> dict[str, tuple[int, ...]]:
        """Return the partition indexes of each topic, without missing topics."""
        views = await self._admin.describe_topics(topics)
        return {name: tuple(found.index for found in view.partitions) for name, view in views.items() if view.exists}

    async def _all(self) -> list[GroupListing]:
        listed: dict[str, GroupListing] = {}
        for broker in (await self._admin.describe_cluster()).brokers:
            for group in await self._admin.broker(broker.host, broker.port).list_groups():
                listed[group.id] = group
        return [listed[group_id] for group_id in sorted(listed)]

    async def _log_offsets(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int]:
        brokers = {broker.id: broker for broker in (await self._admin.describe_cluster()).brokers}
        topics = await self._admin.describe_topics({topic for topic, _ in partitions})
        leaders = {(view.name, found.index): found.leader for view in topics.values() for found in view.partitions}
        led: dict[int, list[Partition]] = {}
        for partition in partitions:
            if (leader := leaders.get(partition)) is not None:
                led.setdefault(leader, []).append(partition)
        offsets: dict[Partition, int] = {}
        for leader, of_leader in led.items():
            if leader in brokers:
                handle = self._admin.broker(brokers[leader].host, brokers[leader].port)
                offsets |= await handle.list_offsets(of_leader, time_ms)
        return offsets

    async def _of_coordinator(
        self, group_id: str, ask: Callable[[BrokerHandle], Awaitable[Answer]], *, again_when_lost: bool = True
    ) -> Answer:
        async def found() -> Answer:
            coordinators = await self._admin.find_coordinators([group_id])
            coordinator = only(list(coordinators.values()), f"finding the coordinator of group {group_id}")
            return await ask(self._admin.broker(coordinator.host, coordinator.port))

        return await self._patiently(found, again_when_lost=again_when_lost)

    async def _patiently(self, ask: Callable[[], Awaitable[Answer]], *, again_when_lost: bool = True) -> Answer:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience_s
        while True:
            try:
                return await ask()
            except KafkaAdminError as error:
                if not _passes(error, again_when_lost) or loop.time() + PAUSE_S > deadline_s:
                    raise
            await asyncio.sleep(PAUSE_S)


def _passes(error: KafkaAdminError, again_when_lost: bool) -> bool:
    if isinstance(error, KafkaApiError):
        return error.code in PASSING
    return again_when_lost and isinstance(error, AdminConnectionError) and error.retriable
