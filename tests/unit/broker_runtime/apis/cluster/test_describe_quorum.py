"""DescribeQuorum: the active controller is the only voter, and brokers are observers by their last heartbeats."""

from typing import Any

import pytest

from broker_runtime.apis.cluster import describe_quorum
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.controller.registration import Heartbeat
from broker_runtime.errors import ErrorCode
from tests.support.worlds.controller import ControllerInMemory


def asked(topic: str = "__cluster_metadata", index: int = 0) -> dict[str, Any]:
    return {"topics": [{"topic_name": topic, "partitions": [{"partition_index": index}]}]}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_brokers_observe_what_the_active_controller_has_on_disk(version: int) -> None:
    async with ControllerInMemory() as node:
        for broker_id, behind in ((5, 0), (6, 2)):
            epoch = await node.broker(broker_id)
            offset = node.image.offset - behind
            await node.controller.heartbeat(Heartbeat(broker_id, epoch, offset, want_fence=False, want_shut_down=False))
        node.clock.advance(1.5)
        answer = await node.ask(describe_quorum.API, version, asked())
        found = answer["topics"][0]["partitions"][0]
        end = node.journal.high_watermark
        assert (answer["error_code"], found["error_code"]) == (ErrorCode.NONE, ErrorCode.NONE)
        assert (found["leader_id"], found["leader_epoch"], found["high_watermark"]) == (1, 1, end)
        assert [voter["replica_id"] for voter in found["current_voters"]] == [1]
        assert [(each["replica_id"], end - each["log_end_offset"]) for each in found["observers"]] == [(5, 2), (6, 2)]
        ages_ms = {node.clock.wall_ms() - each["last_fetch_timestamp"] for each in found["observers"]}
        assert ages_ms == {1_500}


async def test_only_the_metadata_log_has_a_quorum() -> None:
    async with ControllerInMemory() as node:
        for topic, index in (("orders", 0), ("__cluster_metadata", 1)):
            answer = await node.ask(describe_quorum.API, 2, asked(topic, index))
            found = answer["topics"][0]["partitions"][0]
            assert found["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert found["leader_id"] == -1


def test_brokers_forward_it() -> None:
    assert any(api.name == "DescribeQuorum" for api in BROKER_APIS)
    assert any(api.name == "DescribeQuorum" for api in CONTROLLER_APIS)
