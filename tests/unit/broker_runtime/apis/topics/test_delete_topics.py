"""DeleteTopics on every version, by name and by id."""

from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.topics.delete_topics import API
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.topics import TopicRecord
from tests.support.worlds.controller import ControllerInMemory

IDS = {"a": UUID(int=101), "b": UUID(int=102)}


def request(version: int, *wanted: tuple[str | None, UUID | None]) -> dict[str, Any]:
    return {
        "topic_names": [name for name, _ in wanted],
        "topics": [{"name": name, "topic_id": topic_id} for name, topic_id in wanted],
        "timeout": 1000,
    }


async def with_topics(node: ControllerInMemory) -> None:
    await node.write(*(TopicRecord(name, topic_id) for name, topic_id in IDS.items()))


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_deleting_by_name(version: int) -> None:
    async with ControllerInMemory() as node:
        await with_topics(node)
        answer = await node.ask(API, version, request(version, ("a", None), ("nope", None)))
        assert [(each["name"], each["error_code"]) for each in answer["responses"]] == [
            ("a", ErrorCode.NONE),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert list(node.image.topics) == ["b"]


async def test_deleting_by_id_names_the_topic_in_the_answer() -> None:
    async with ControllerInMemory() as node:
        await with_topics(node)
        answer = await node.ask(API, 6, request(6, (None, IDS["b"]), (None, UUID(int=5))))
        assert [(each["name"], each["error_code"]) for each in answer["responses"]] == [
            ("b", ErrorCode.NONE),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]


async def test_a_topic_that_is_named_twice_stays() -> None:
    async with ControllerInMemory() as node:
        await with_topics(node)
        answer = await node.ask(API, 6, request(6, ("a", None), ("a", None), ("b", None), (None, IDS["b"])))
        assert {each["error_code"] for each in answer["responses"]} == {ErrorCode.INVALID_REQUEST}
        assert sorted(node.image.topics) == ["a", "b"]


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_can_be_disabled(version: int, code: ErrorCode) -> None:
    async with ControllerInMemory(properties={"delete.topic.enable": "false"}) as node:
        await with_topics(node)
        answer = await node.ask(API, version, request(version, ("a", None)))
        assert [each["error_code"] for each in answer["responses"]] == [code]
        assert "a" in node.image.topics
