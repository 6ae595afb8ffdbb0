"""Administration of a simulated cluster: topics, reassignments, elections. One client for each request."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    ELECT_LEADERS,
)
from tests.simulation.cluster.connection import Key, Unanswered

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_TRIES = 20


class Admin:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._asked = 0

    async def ask(self, api_key: int, version: int, content: Fields) -> Entity | None:
        """The answer of any broker; None if none answers."""
        self._asked += 1
        owner, view = self._cluster.client(f"admin-{self._asked}")
        try:
            return await self._cluster.loop.create_task(view.ask_any(api_key, version, content), context=owner.context)
        except Unanswered:
            return None

    async def create_topic(self, name: str, partitions: int) -> bool:
        return (await self._create(name, partitions))[0] in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def create_new_topic(self, name: str, partitions: int) -> UUID | None:
        """Create a topic; return its id, or None if it is not certain that it was made now."""
        code, topic_id = await self._create(name, partitions)
        return topic_id if code == ErrorCode.NONE else None

    async def _create(self, name: str, partitions: int) -> tuple[ErrorCode | None, UUID | None]:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": self._cluster.shape.replication_factor,
            "assignments": (),
            "configs": (),
        }
        answer = await self.ask(CREATE_TOPICS, 7, {"topics": [topic], "timeout": 3000, "validate_only": False})
        if answer is None:
            return None, None
        return ErrorCode(int(answer.topics[0].error_code)), answer.topics[0].topic_id

    async def grow_topic(self, name: str, partitions: int) -> str:
        """Add partitions; return the controller's answer."""
        topic = {"name": name, "count": partitions, "assignments": None}
        answer = await self.ask(CREATE_PARTITIONS, 3, {"topics": [topic], "timeout": 3000, "validate_only": False})
        return "no answer" if answer is None else ErrorCode(int(answer.results[0].error_code)).name

    async def has_topic(self, name: str, partitions: int) -> bool:
        """Create the topic, with retries. False and a mistake if it cannot be created."""
        for _ in range(_TRIES):
            if await self.create_topic(name, partitions):
                return True
            await asyncio.sleep(0.5)
        self._cluster.around.mistake(f"topic {name} cannot be made")
        return False

    async def delete_topic(self, name: str) -> bool:
        answer = await self.ask(DELETE_TOPICS, 4, {"topic_names": (name,), "timeout": 3000})
        return answer is not None and ErrorCode(int(answer.responses[0].error_code)) == ErrorCode.NONE

    async def delete_records(self, key: Key, before: int) -> int | None:
        """New start offset of the partition; -1 when the request is refused, None when no broker answers."""
        self._asked += 1
        owner, view = self._cluster.client(f"admin-{self._asked}")
        partition = {"partition_index": key[1], "offset": before}
        content = {"topics": [{"name": key[0], "partitions": [partition]}], "timeout": 3000}

        async def ask() -> Entity:
            await view.leader_known(key)
            return (await view.ask_leader(key, DELETE_RECORDS, 2, content))[0]

        try:
            answer = await self._cluster.loop.create_task(ask(), context=owner.context)
        except Unanswered:
            return None
        part = answer.topics[0].partitions[0]
        return int(part.low_watermark) if int(part.error_code) == 0 else -1

    async def reassign(self, topic: str, index: int, replicas: Sequence[int]) -> str:
        """Reassign a partition; return the controller's answer."""
        partition = {"partition_index": index, "replicas": tuple(replicas)}
        content = {"timeout": 3000, "topics": [{"name": topic, "partitions": [partition]}]}
        answer = await self.ask(ALTER_PARTITION_REASSIGNMENTS, 0, content)
        if answer is None:
            return "no answer"
        codes = [answer.error_code, *(part.error_code for found in answer.responses for part in found.partitions)]
        return ", ".join(ErrorCode(int(code)).name for code in codes)

    async def elect_preferred(self) -> str:
        answer = await self.ask(ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": None, "timeout": 3000})
        return "no answer" if answer is None else ErrorCode(int(answer.error_code)).name
