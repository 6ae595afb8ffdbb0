"""Metadata: questions that cannot be answered."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.metadata import API
from broker_runtime.errors import ErrorCode
from tests.support.controller import ControllerInMemory

NOBODY = UUID(int=0)


def question(name: str | None, topic_id: UUID = NOBODY) -> dict[str, Any]:
    return {
        "topics": [{"topic_id": topic_id, "name": name}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


@pytest.mark.parametrize("version", [10, 11])
async def test_topics_are_looked_up_by_id_from_version_12_on(version: int) -> None:
    async with ControllerInMemory() as node:
        asked = question(None, UUID(int=9))
        if version > 10:
            del asked["include_cluster_authorized_operations"]
        answer = await node.ask(API, version, asked)
        assert (answer["topics"][0]["error_code"], answer["brokers"]) == (ErrorCode.INVALID_REQUEST, [])


async def test_a_topic_named_in_no_way_is_refused() -> None:
    async with ControllerInMemory() as node:
        asked = question(None)
        del asked["include_cluster_authorized_operations"]
        answer = await node.ask(API, 12, asked)
        assert answer["topics"][0]["error_code"] == ErrorCode.INVALID_REQUEST


async def test_an_impossible_name_is_told_from_an_unknown_one() -> None:
    async with ControllerInMemory() as node:
        asked = {"topics": [{"name": "bad name"}, {"name": "unknown"}], "allow_auto_topic_creation": False}
        codes = [topic["error_code"] for topic in (await node.ask(API, 4, asked))["topics"]]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


class Asked:
    """Notes which topics are to be made."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def ask_for(self, names: Collection[str]) -> None:
        self.names += names


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_topic_that_is_made_by_asking_is_unknown_in_the_answer(allowed: bool) -> None:
    async with ControllerInMemory() as node:
        created = Asked()
        broker = SimpleNamespace(settings=node.settings, image=node.image, cluster_id="c", auto_topic_creation=created)
        names = [{"name": name} for name in ("new", "bad name", "new", "__consumer_offsets")]
        answer = await node.ask(API, 4, {"topics": names, "allow_auto_topic_creation": allowed}, broker)
        assert [(topic["name"], topic["error_code"]) for topic in answer["topics"]] == [
            ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert created.names == (["new"] if allowed else [])
