"""Topics created by Metadata requests: each is requested once at a time, and no client waits."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker_runtime.apis.topics.auto_topic_creation import AutoTopicCreation
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.reply import Parts
from tests.support.fakes.manual_clock import ManualClock


class Controller:
    """A controller that answers when a test says so."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.answers: list[asyncio.Future[Any]] = []

    async def request(self, api_key: int, version: int, content: Any) -> Any:
        assert (api_key, version) == (19, 4), "its answer has no configurations"
        self.asked.append([topic["name"] for topic in content["topics"]])
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
        raise AssertionError("these requests are ours")


def told(name: str, code: int = 0) -> SimpleNamespace:
    return SimpleNamespace(topics=[SimpleNamespace(name=name, error_code=code, error_message="why")])


class Scene:
    def __init__(self, requests_max: int = 2) -> None:
        self.controller = Controller()
        self.creation = AutoTopicCreation(self.controller, ManualClock(), 1000, requests_max)

    async def ask(self, *names: str) -> None:
        self.creation.ask_for(names)
        await asyncio.sleep(0)


async def answered(scene: Scene, number: int, result: Any) -> None:
    answer = scene.controller.answers[number]
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_topic_that_is_being_made_is_not_asked_for_again() -> None:
    scene = Scene()
    await scene.ask("a", "b")
    await scene.ask("b", "c")
    assert scene.controller.asked == [["a", "b"], ["c"]]
    await answered(scene, 0, told("a"))
    await scene.ask("a")
    assert scene.controller.asked[2:] == [["a"]]
    await scene.creation.close()


async def test_no_more_requests_are_under_way_than_allowed() -> None:
    scene = Scene(requests_max=1)
    await scene.ask("a")
    await scene.ask("b")
    assert scene.controller.asked == [["a"]]
    await answered(scene, 0, told("a"))
    await scene.ask("b")
    assert scene.controller.asked == [["a"], ["b"]]
    await scene.creation.close()


@pytest.mark.parametrize(
    "result", [told("a", ErrorCode.INVALID_REPLICATION_FACTOR), KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "gone")]
)
async def test_a_topic_that_cannot_be_created_is_logged_rarely_and_may_be_requested_again(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    for number in range(3):
        await scene.ask("a")
        await answered(scene, number, result)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "topic a was requested and could not be created" in caplog.text


async def test_a_stop_waits_for_nobody() -> None:
    scene = Scene()
    await scene.ask("a")
    await scene.creation.close()
    assert scene.controller.answers[0].cancelled()
