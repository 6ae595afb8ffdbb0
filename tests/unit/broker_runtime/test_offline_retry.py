"""Partitions that could not be opened are tried again."""

import asyncio
from collections.abc import Iterator

import pytest

from broker_runtime.storage.disk.disk import Pause
from tests.unit.broker_runtime.node.test_broker_node import Scene, made

pytestmark = pytest.mark.virtual_time


async def test_a_partition_that_could_not_be_opened_is_tried_again_less_and_less_often() -> None:
    scene = await Scene.begun()
    scene.fs.no_descriptors = True
    await scene.change(*made(4))
    assert scene.led == {"topic-1", "topic-2", "topic-3"}
    tries: list[str] = []
    real = scene.node.metadata.replica_publisher._apply_topic

    def again(name: str) -> Iterator[Pause | None]:
        tries.append(name)
        return real(name)

    scene.node.metadata.replica_publisher._apply_topic = again  # type: ignore[method-assign]
    await asyncio.sleep(600)
    assert 10 < len(tries) < 25
    assert "topic-4-0 is not served" in scene.node.replicas.offline_notes()[0]
    scene.fs.no_descriptors = False
    await asyncio.sleep(60)
    assert "topic-4" in scene.led
    assert not scene.node.replicas.offline
    before = len(tries)
    await asyncio.sleep(600)
    assert len(tries) == before
