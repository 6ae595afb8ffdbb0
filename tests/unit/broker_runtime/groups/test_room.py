"""A coordinator takes a limited number of groups; existing ones stay, whichever protocol creates another one."""

from broker_runtime.apis.groups import consumer_group_heartbeat, join_group, offset_commit
from broker_runtime.errors import ErrorCode
from tests.support.groups.coordinating_broker import CoordinatingBroker

ONE_GROUP = {"sluicegate.group.coordinator.groups.max": "1", "group.initial.rebalance.delay.ms": "0"}


async def commit(node: CoordinatingBroker, group_id: str) -> ErrorCode:
    part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    content = {"group_id": group_id, "member_id": "", "generation_id_or_member_epoch": -1}
    content |= {"topics": [{"name": "orders", "partitions": [part]}]}
    (topic,) = (await node.ask(offset_commit.API, 9, content)).topics
    return ErrorCode(topic.partitions[0].error_code)


async def join(node: CoordinatingBroker, group_id: str) -> ErrorCode:
    content = {"group_id": group_id, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": ""}
    content |= {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    return ErrorCode((await node.ask(join_group.API, 3, content)).error_code)


async def beat(node: CoordinatingBroker, group_id: str) -> tuple[ErrorCode, str | None]:
    content = {"group_id": group_id, "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None}
    content |= {"rebalance_timeout": 60_000, "subscribed_topic_names": ["orders"], "server_assignor": None}
    content |= {"subscribed_topic_regex": None, "topic_partitions": []}
    answer = await node.ask(consumer_group_heartbeat.API, 1, content)
    return ErrorCode(answer.error_code), answer.error_message


async def test_a_group_beyond_the_maximum_is_rejected_for_every_request() -> None:
    async with CoordinatingBroker(ONE_GROUP, partitions=1) as node:
        await node.lead()
        assert await commit(node, "first") is ErrorCode.NONE
        assert await commit(node, "second") is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert await join(node, "second") is ErrorCode.GROUP_MAX_SIZE_REACHED
        code, message = await beat(node, "second")
        assert code is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert message == (
            "the coordinator of group 'second' has 1 groups; at most 1 are allowed "
            "(sluicegate.group.coordinator.groups.max)"
        )
        assert list(node.groups.term_of("first").state.groups) == ["first"]


async def test_a_group_that_is_there_is_served_and_may_change_its_protocol() -> None:
    async with CoordinatingBroker(ONE_GROUP, partitions=1) as node:
        await node.lead()
        assert await commit(node, "first") is ErrorCode.NONE
        assert (await beat(node, "first"))[0] is ErrorCode.NONE
        assert await join(node, "first") is not ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_a_coordinator_that_finds_more_groups_than_it_takes_keeps_them() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        for name in ("first", "second", "third"):
            assert await commit(node, name) is ErrorCode.NONE
        node.settings = CoordinatingBroker(ONE_GROUP).settings
        await node.lead()
        assert await commit(node, "third") is ErrorCode.NONE
        assert await commit(node, "fourth") is ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_an_id_that_no_record_has_room_for_is_refused() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        assert await commit(node, "x" * 32_768) is ErrorCode.INVALID_GROUP_ID
        assert (await beat(node, "x" * 32_768))[0] is ErrorCode.INVALID_GROUP_ID
        assert await commit(node, "x" * 32_767) is ErrorCode.NONE
