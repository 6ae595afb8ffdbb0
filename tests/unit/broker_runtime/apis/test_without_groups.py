"""A broker without groups: whoever needs none is not kept waiting for one."""

from typing import Any

import pytest

from broker_runtime.apis import find_coordinator, without_groups
from broker_runtime.apis.context import ApiSpec
from broker_runtime.errors import ErrorCode, ProtocolError
from tests.support.controller import ControllerInMemory

TOPICS = [{"name": "orders", "partition_indexes": [0, 2]}]


def versions(api: ApiSpec[Any]) -> range:
    return range(api.versions[0], api.versions[1] + 1)


@pytest.mark.parametrize("version", range(5))
async def test_each_broker_is_the_coordinator_of_every_group(version: int) -> None:
    async with ControllerInMemory() as node:
        asked = {"key": "group", "key_type": 0, "coordinator_keys": ["group"]}
        told = {name: asked[name] for name in (["key"] if not version else ["key", "key_type"])}
        content = {"key_type": 0, "coordinator_keys": ["group"]} if version == 4 else told
        before = await node.ask(find_coordinator.API, version, content)
        await node.broker()
        after = await node.ask(find_coordinator.API, version, content)
        assert before["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (after["error_code"], after["node_id"], after["port"]) == (ErrorCode.NONE, 1, 9092)


async def test_transactions_have_none_and_other_types_do_not_exist() -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        for kind, code in ((1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (9, ErrorCode.INVALID_REQUEST)):
            answer = await node.ask(find_coordinator.API, 4, {"key_type": kind, "coordinator_keys": ["t"]})
            assert [each["error_code"] for each in answer["coordinators"]] == [code]


async def test_coordinators_are_answered_once_for_each_key_and_for_so_many() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(find_coordinator.API, 4, {"key_type": 0, "coordinator_keys": ["a", "b", "a"]})
        assert [each["key"] for each in answer["coordinators"]] == ["a", "b"]
        many = {"key_type": 0, "coordinator_keys": [str(n) for n in range(10_001)]}
        with pytest.raises(ProtocolError, match="at most 10000 at once"):
            await node.ask(find_coordinator.API, 4, many)


@pytest.mark.parametrize("version", versions(without_groups.OFFSET_FETCH_API))
async def test_nobody_has_committed_an_offset(version: int) -> None:
    single: dict[str, Any] = {"group_id": "group", "topics": TOPICS}
    async with ControllerInMemory() as node:
        answer = await node.ask(
            without_groups.OFFSET_FETCH_API, version, single if version < 8 else {"groups": [single]}
        )
        found = answer if version < 8 else answer["groups"][0]
        assert found["error_code"] == ErrorCode.NONE
        parts = found["topics"][0]["partitions"]
        assert [(part["partition_index"], part["committed_offset"]) for part in parts] == [(0, -1), (2, -1)]
        if version >= 2:
            nothing: dict[str, Any] = {"group_id": "group", "topics": None}
            asked = nothing if version < 8 else {"groups": [nothing]}
            answer = await node.ask(without_groups.OFFSET_FETCH_API, version, asked)
            assert (answer if version < 8 else answer["groups"][0])["topics"] == []


@pytest.mark.parametrize("version", versions(without_groups.OFFSET_COMMIT_API))
async def test_an_offset_that_is_committed_is_refused_for_good(version: int) -> None:
    partition: dict[str, Any] = {"partition_index": 3, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    generation = "generation_id_or_member_epoch" if version >= 9 else "generation_id"
    content = {"group_id": "group", generation: -1, "member_id": "", "topics": topics}
    async with ControllerInMemory() as node:
        answer = await node.ask(without_groups.OFFSET_COMMIT_API, version, content)
        assert answer["topics"][0]["partitions"] == [
            {"partition_index": 3, "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
        ]


@pytest.mark.parametrize("version", versions(without_groups.JOIN_GROUP_API))
async def test_nobody_can_join(version: int) -> None:
    content: dict[str, Any] = {"group_id": "group", "session_timeout": 45_000, "member_id": "me"}
    content |= {"protocol_type": "consumer", "protocols": []} | ({"rebalance_timeout": 5} if version else {})
    async with ControllerInMemory() as node:
        answer = await node.ask(without_groups.JOIN_GROUP_API, version, content)
        assert answer["error_code"] == ErrorCode.GROUP_AUTHORIZATION_FAILED
