"""Other requests of current clients: topics in pages, resources, features, folders, producers."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.cluster import update_features
from broker_runtime.apis.configs import list_config_resources
from broker_runtime.apis.partitions import alter_replica_log_dirs
from broker_runtime.apis.topics import describe_topic_partitions
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.wire.protocol_versions import FEATURES
from tests.support.worlds.controller import ControllerInMemory


async def with_topics(node: ControllerInMemory, *names: str) -> None:
    await node.broker()
    for number, name in enumerate(names, 1):
        topic_id = UUID(int=number)
        parts = [PartitionRecord(topic_id, index, (1,), (1,), 1, 0, 0) for index in range(3)]
        await node.write(TopicRecord(name, topic_id), *parts)


async def test_all_topics_come_in_pieces() -> None:
    async with ControllerInMemory() as node:
        await with_topics(node, "b", "a", "c")
        seen: list[tuple[str, int]] = []
        cursor: Any = None
        for _ in range(5):
            asked = {"topics": [], "response_partition_limit": 2, "cursor": cursor}
            answer = await node.ask(describe_topic_partitions.API, 0, asked)
            seen += [(t["name"], part["partition_index"]) for t in answer["topics"] for part in t["partitions"]]
            cursor = answer["next_cursor"]
            assert {t["topic_authorized_operations"] for t in answer["topics"]} == {3576}
        assert cursor is None
        assert seen == [(name, index) for name in "abc" for index in range(3)]


async def test_an_answer_has_so_many_partitions_at_most() -> None:
    async with ControllerInMemory() as node:
        await with_topics(node, *(f"topic-{number:04}" for number in range(700)))
        asked = {"topics": [], "response_partition_limit": 2**31 - 1, "cursor": None}
        answer = await node.ask(describe_topic_partitions.API, 0, asked)
        assert sum(len(topic["partitions"]) for topic in answer["topics"]) == 2_000
        assert answer["next_cursor"] == {"topic_name": "topic-0666", "partition_index": 2}


async def test_resources_are_listed_by_kind() -> None:
    async with ControllerInMemory() as node:
        await with_topics(node, "orders")
        assert (await node.ask(list_config_resources.API, 0, {}))["config_resources"] == []
        await node.write(ConfigRecord(32, "readers", "consumer.session.timeout.ms", "50000"))
        await node.write(*(ConfigRecord(16, name, "metrics", "*") for name in "ba"))
        answer = await node.ask(list_config_resources.API, 1, {"resource_types": []})
        found = [(item["resource_type"], item["resource_name"]) for item in answer["config_resources"]]
        assert found == [(2, "orders"), (4, "1"), (8, "1"), (16, "a"), (16, "b"), (32, "readers")]
        of_clients = (await node.ask(list_config_resources.API, 0, {}))["config_resources"]
        assert [item["resource_name"] for item in of_clients] == ["a", "b"]
        refused = await node.ask(list_config_resources.API, 1, {"resource_types": [77]})
        assert refused["error_code"] == ErrorCode.UNSUPPORTED_VERSION


UPGRADE, DOWNGRADE = 1, 2


@pytest.mark.parametrize(
    ("updates", "why"),
    [
        ([("group.version", 1, UPGRADE)], None),
        ([("group.version", 1, DOWNGRADE), ("metadata.version", 30, UPGRADE)], None),
        ([("x", 1, UPGRADE)], "Local controller 1 does not support this feature."),
        ([("group.version", 1, UPGRADE), ("x", 1, UPGRADE)], "version 1 for feature x. Local controller 1 does not"),
        ([("group.version", 2, UPGRADE)], "Local controller 1 only supports versions 0-1"),
        ([("metadata.version", 6, DOWNGRADE)], "Local controller 1 only supports versions 7-30"),
        ([("group.version", -1, DOWNGRADE)], "A feature version cannot be less than 0."),
        ([("group.version", 0, UPGRADE)], "Can't downgrade the version of this feature without"),
        ([("group.version", 0, DOWNGRADE)], "The version of this feature is fixed at 1"),
        ([("group.version", 1, 0)], "The controller does not support the given upgrade type."),
    ],
)
async def test_features_stay_at_their_levels(updates: list[tuple[str, int, int]], why: str | None) -> None:
    async with ControllerInMemory() as node:
        asked = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in updates]
        answer = await node.ask(update_features.API, 2, {"timeout": 1, "feature_updates": asked})
        if why is None:
            assert (answer["error_code"], answer["error_message"]) == (ErrorCode.NONE, None)
        else:
            assert answer["error_code"] == ErrorCode.INVALID_UPDATE_VERSION
            assert why in answer["error_message"]


@pytest.mark.parametrize(("downgrade", "level", "why"), [(False, 0, "Can't downgrade"), (True, 0, "is fixed")])
async def test_the_first_version_allows_a_downgrade_or_not(downgrade: bool, level: int, why: str) -> None:
    async with ControllerInMemory() as node:
        update = {"feature": "group.version", "max_version_level": level, "allow_downgrade": downgrade}
        answer = await node.ask(update_features.API, 0, {"timeout": 1, "feature_updates": [update]})
        assert why in answer["error_message"]


async def test_a_replica_stays_in_the_one_folder() -> None:
    async with ControllerInMemory() as node:
        await with_topics(node, "orders")
        for path, code in (
            ("/elsewhere", ErrorCode.LOG_DIR_NOT_FOUND),
            (node.settings.log_dir, ErrorCode.REPLICA_NOT_AVAILABLE),
        ):
            folders = [{"path": path, "topics": [{"name": "orders", "partitions": [0]}]}]
            answer = await node.ask(alter_replica_log_dirs.API, 2, {"dirs": folders})
            assert answer["results"][0]["partitions"] == [{"partition_index": 0, "error_code": code}]


async def test_many_updates_of_features_are_answered_in_steps() -> None:
    name, feature = next(iter(FEATURES.items()))
    update = SimpleNamespace(feature=name, max_version_level=feature.highest, upgrade_type=1)
    request, call = SimpleNamespace(feature_updates=[update] * 1_000), SimpleNamespace(version=2)
    context = SimpleNamespace(settings=SimpleNamespace(node_id=1))
    assert sum(1 for _ in update_features.handle(cast("Any", request), cast("Any", call), cast("Any", context))) >= 100
