"""group.coordinator.rebalance.protocols: KIP-848 may be switched off."""

from typing import Any

from broker_runtime.apis.groups import consumer_group_heartbeat
from broker_runtime.errors import ErrorCode
from tests.support.groups.coordinating_broker import CoordinatingBroker


async def joined(node: CoordinatingBroker) -> Any:
    member = {"member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    return await node.ask(consumer_group_heartbeat.API, 1, {"group_id": "billing", "rebalance_timeout": 1000} | member)


async def test_members_of_kip_848_are_refused_where_the_protocol_is_not_listed() -> None:
    async with CoordinatingBroker({"group.coordinator.rebalance.protocols": "classic,share"}) as node:
        await node.lead()
        assert (await joined(node)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_and_are_served_where_it_is() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        assert (await joined(node)).error_code == ErrorCode.NONE
