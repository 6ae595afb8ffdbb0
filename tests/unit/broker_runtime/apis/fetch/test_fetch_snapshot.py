"""FetchSnapshot (59): the newest snapshot in pieces, and every way to be refused."""

from typing import Any

import pytest

from broker_runtime.apis.fetch.fetch_snapshot import API, NEWEST
from broker_runtime.controller.journal.seam import Snapshot
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from tests.support.worlds.controller import CLUSTER_ID, ControllerInMemory

SNAPSHOT = Snapshot(42, 3, b"0123456789")


def request(
    end_offset: int = NEWEST, epoch: int = NEWEST, position: int = 0, *, topic: str = METADATA_TOPIC, partition: int = 0
) -> dict[str, Any]:
    part = {
        "partition": partition,
        "current_leader_epoch": -1,
        "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
        "position": position,
    }
    return {"replica_id": 1, "max_bytes": 4, "topics": [{"name": topic, "partitions": [part]}]}


async def test_a_snapshot_is_sent_in_pieces() -> None:
    async with ControllerInMemory() as node:
        node.controller.history.snapshot = SNAPSHOT
        found = b""
        wanted = (NEWEST, NEWEST)
        while len(found) < 10:
            answer = await node.ask(API, 0, request(*wanted, position=len(found)))
            part = answer["topics"][0]["partitions"][0]
            assert (part["error_code"], part["size"], part["position"]) == (ErrorCode.NONE, 10, len(found))
            wanted = (part["snapshot_id"]["end_offset"], part["snapshot_id"]["epoch"])
            found += part["unaligned_records"]
        assert (found, wanted) == (SNAPSHOT.payload, (42, 3))


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(41, 3), ErrorCode.SNAPSHOT_NOT_FOUND),
        (request(42, 2), ErrorCode.SNAPSHOT_NOT_FOUND),
        (request(42, 3, 11), ErrorCode.POSITION_OUT_OF_RANGE),
        (request(42, 3, -1), ErrorCode.POSITION_OUT_OF_RANGE),
        (request(topic="orders"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_refusals(asked: dict[str, Any], code: ErrorCode) -> None:
    async with ControllerInMemory() as node:
        node.controller.history.snapshot = SNAPSHOT
        answer = await node.ask(API, 0, asked)
    assert answer["topics"][0]["partitions"][0]["error_code"] == code


async def test_none_yet_another_cluster_and_a_standby() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(API, 0, request())
        assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.SNAPSHOT_NOT_FOUND
        assert (await node.ask(API, 0, request() | {"cluster_id": CLUSTER_ID}))["error_code"] == ErrorCode.NONE
        other = await node.ask(API, 0, request() | {"cluster_id": "other"})
        assert other["error_code"] == ErrorCode.INCONSISTENT_CLUSTER_ID
    answer = await node.ask(API, 0, request())
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
