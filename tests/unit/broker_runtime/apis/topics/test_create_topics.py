"""CreateTopics on every version: each topic has its own answer."""

from typing import Any

import pytest

from broker_runtime.apis.topics import create_topics
from broker_runtime.apis.topics.create_topics import API
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.describe_configs import describe_topic
from tests.support.worlds.controller import ControllerInMemory


def topic(name: str, partitions: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}


def request(*topics: dict[str, Any], validate_only: bool = False) -> dict[str, Any]:
    return {"topics": topics, "timeout": 1000, "validate_only": validate_only}


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_each_topic_of_a_request_stands_for_itself(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        answer = await node.ask(
            API, version, request(topic("a", 3), topic("b c"), topic("d"), topic("d"), topic("x.y"))
        )
        codes = {each["name"]: each["error_code"] for each in answer["topics"]}
        assert codes == {
            "a": ErrorCode.NONE,
            "b c": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "d": ErrorCode.INVALID_REQUEST,
            "x.y": ErrorCode.NONE,
        }
        assert sorted(node.image.topics) == ["a", "x.y"]
        created = next(each for each in answer["topics"] if each["name"] == "a")
        assert created["topic_id"] == node.image.topics["a"].id
        assert created["num_partitions"] == 3
        assert {"retention.ms"} <= {entry["name"] for entry in created["configs"]}


async def test_topics_with_equal_configurations_are_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[dict[str, str]] = []

    def note(configs: dict[str, str], *more: Any) -> Any:
        described.append(configs)
        return describe_topic(configs, *more)

    monkeypatch.setattr(create_topics, "describe_topic", note)
    async with ControllerInMemory() as node:
        await node.broker()
        other = {**topic("other"), "configs": ({"name": "retention.ms", "value": "7"},)}
        answer = await node.ask(API, 7, request(*(topic(f"t{number}") for number in range(600)), other))
    assert described == [{}, {"retention.ms": "7"}]
    shown = {each["name"]: {c["name"]: c["value"] for c in each["configs"]} for each in answer["topics"]}
    assert (shown["other"].pop("retention.ms"), shown["t0"].pop("retention.ms")) == ("7", "604800000")
    assert shown["other"] == shown["t0"]


async def test_validating_creates_nothing() -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        answer = await node.ask(API, 7, request(topic("a"), topic("a b"), validate_only=True))
        assert [each["error_code"] for each in answer["topics"]] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert node.image.topics == {}


async def test_two_topics_of_one_request_may_not_collide() -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        answer = await node.ask(API, 7, request(topic("x.y"), topic("x_y")))
        assert [each["error_code"] for each in answer["topics"]] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


async def test_a_disk_that_fails_sends_the_client_to_the_next_controller() -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        node.fs.failing_fsync = True
        answer = await node.ask(API, 7, request(topic("a"), topic("b")))
        assert [each["error_code"] for each in answer["topics"]] == [ErrorCode.NOT_CONTROLLER] * 2


async def test_partitions_are_counted_over_the_request() -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        many = [topic(f"many-{number}", 10_000) for number in range(60)]
        answer = await node.ask(API, 7, request(*many, validate_only=True))
        assert {each["error_code"] for each in answer["topics"]} == {ErrorCode.POLICY_VIOLATION}
        assert len(answer["topics"]) == 60


async def test_a_broker_takes_no_more_replicas_than_it_may_have() -> None:
    async with ControllerInMemory(properties={"sluicegate.broker.replicas.max": "5"}) as node:
        await node.broker()
        answer = await node.ask(API, 7, request(topic("a", 3), topic("b", 3), topic("c", 2)))
        codes = [each["error_code"] for each in answer["topics"]]
        assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
        assert "Broker 1 would have 6 replicas" in answer["topics"][1]["error_message"]
