"""Metadata: requests that cannot be answered."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.apis.cluster import describe_cluster
from broker_runtime.apis.request.authorization.authorized_operations import NOT_ASKED
from broker_runtime.apis.topics.metadata import API
from broker_runtime.errors import ErrorCode
from tests.support.worlds.controller import ControllerInMemory

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
        codes = [ErrorCode[topic["error_code"].upper()] for topic in (await node.ask(API, 4, asked))["topics"]]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("asked_for", [True, False])
async def test_without_an_authorizer_a_client_may_do_everything(asked_for: bool) -> None:
    async with ControllerInMemory() as node:
        asked = {
            "topics": [{"name": "unknown"}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": asked_for,
            "include_topic_authorized_operations": asked_for,
        }
        answer = await node.ask(API, 8, asked)
        assert answer["topics"][0]["topic_authorized_operations"] == (3576 if asked_for else NOT_ASKED)
        assert answer["cluster_authorized_operations"] == (8096 if asked_for else NOT_ASKED)
        cluster = {"include_cluster_authorized_operations": asked_for}
        answer = await node.ask(describe_cluster.API, 0, cluster)
        assert answer["cluster_authorized_operations"] == (8096 if asked_for else NOT_ASKED)


class Asked:
    """Notes which topics are to be created."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def ask_for(self, names: Collection[str], client: object = None) -> None:
        self.names += names


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_topic_that_is_made_by_asking_is_unknown_in_the_answer(allowed: bool) -> None:
    async with ControllerInMemory() as node:
        created = Asked()
        broker = SimpleNamespace(settings=node.settings, image=node.image, cluster_id="c", auto_topic_creation=created)
        names = [{"name": name} for name in ("new", "bad name", "new", "__consumer_offsets")]
        answer = await node.ask(API, 4, {"topics": names, "allow_auto_topic_creation": allowed}, broker)
        assert [(topic["name"], ErrorCode[topic["error_code"].upper()]) for topic in answer["topics"]] == [
            ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert created.names == (["new"] if allowed else [])
