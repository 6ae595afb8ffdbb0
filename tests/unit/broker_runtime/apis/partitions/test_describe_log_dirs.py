"""DescribeLogDirs on every version: one folder, its content, and nothing of the metadata log."""

from typing import Any

import pytest

from broker_runtime.apis.partitions.describe_log_dirs import API
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode
from kafka_bytes.batches import encode_batch
from tests.support.worlds.controller import ControllerInMemory


def held(answer: dict[str, Any]) -> dict[tuple[str, int], int]:
    (folder,) = answer["results"]
    return {
        (topic["name"], part["partition_index"]): part["partition_size"]
        for topic in folder["topics"]
        for part in topic["partitions"]
    }


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_the_answer_has_the_content_of_the_folder(version: int) -> None:
    async with ControllerInMemory() as node:
        batch = encode_batch([(None, b"x" * 100)], 0)
        for name, index, batches in (("a", 0, 0), ("a", 1, 2), ("b", 0, 1)):
            log = node.logs.create(name, index, node.journal.topic_id, TopicConfig())
            for _ in range(batches):
                log.append(memoryview(bytearray(batch)))
        answer = await node.ask(API, version, {"topics": None})
        assert held(answer) == {("a", 0): 0, ("a", 1): 2 * len(batch), ("b", 0): len(batch)}
        assert answer["results"][0]["log_dir"] == node.settings.log_dir
        asked = [{"topic": "a", "partitions": [1, 7]}, {"topic": "c", "partitions": [0]}]
        assert held(await node.ask(API, version, {"topics": asked})) == {("a", 1): 2 * len(batch)}
        assert held(await node.ask(API, version, {"topics": []})) == {}
        assert answer["error_code"] == ErrorCode.NONE
