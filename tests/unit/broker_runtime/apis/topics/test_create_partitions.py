"""CreatePartitions on every version."""

from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.topics.create_partitions import API
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from tests.support.worlds.controller import ControllerInMemory

ID = UUID(int=5)


def request(*wanted: tuple[str, int], validate_only: bool = False) -> dict[str, Any]:
    topics = [{"name": name, "count": count, "assignments": None} for name, count in wanted]
    return {"topics": topics, "timeout": 1000, "validate_only": validate_only}


async def with_topic(node: ControllerInMemory) -> None:
    await node.broker()
    await node.write(TopicRecord("a", ID), PartitionRecord(ID, 0, (1,), (1,), 1, 0, 0))


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_each_topic_of_a_request_stands_for_itself(version: int) -> None:
    async with ControllerInMemory() as node:
        await with_topic(node)
        answer = await node.ask(API, version, request(("a", 3), ("nope", 3), ("d", 2), ("d", 3)))
        assert {each["name"]: each["error_code"] for each in answer["results"]} == {
            "a": ErrorCode.NONE,
            "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "d": ErrorCode.INVALID_REQUEST,
        }
        assert len(node.image.topics["a"].partitions) == 3


async def test_validating_changes_nothing() -> None:
    async with ControllerInMemory() as node:
        await with_topic(node)
        answer = await node.ask(API, 3, request(("a", 3), validate_only=True))
        assert answer["results"][0]["error_code"] == ErrorCode.NONE
        assert len(node.image.topics["a"].partitions) == 1
