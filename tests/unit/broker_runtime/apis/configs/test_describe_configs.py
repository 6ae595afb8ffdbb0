"""DescribeConfigs on every version."""

from typing import Any

import pytest

from broker_runtime.apis.configs.describe_configs import API
from broker_runtime.apis.request.observed import error_code
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.encoding.encode import MadeItems
from broker_runtime.wire.messages import decode_request, encode_request_body
from tests.support.requests.calls import a_call, fields_later
from tests.support.worlds.controller import ControllerInMemory


def request(kind: int, name: str, *keys: str, documented: bool = False, synonyms: bool = True) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    return {"resources": [resource], "include_synonyms": synonyms, "include_documentation": documented}


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_a_value_with_its_source(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.write(ConfigRecord(4, "", "max.connections", "5"))
        answer = await node.ask(API, version, request(4, "1", "max.connections"))
        (entry,) = answer["results"][0]["configs"]
        assert (entry["value"], entry["config_source"], entry["read_only"]) == ("5", 3, False)
        assert [synonym["source"] for synonym in entry["synonyms"]] == [3, 5]


async def test_synonyms_and_documentation_only_when_asked() -> None:
    async with ControllerInMemory() as node:
        bare = await node.ask(API, 4, request(4, "1", "node.id", synonyms=False))
        full = await node.ask(API, 4, request(4, "1", "node.id", documented=True))
        (without,), (with_all,) = bare["results"][0]["configs"], full["results"][0]["configs"]
        assert (without["synonyms"], without["documentation"]) == ([], None)
        assert with_all["documentation"].startswith("Identity of this node")


async def test_another_broker_is_not_described_here() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(API, 4, request(4, "2"))
        assert answer["results"][0]["error_code"] == ErrorCode.INVALID_REQUEST
        assert answer["results"][0]["configs"] == []


async def test_an_answer_to_many_resources_makes_one_at_a_time_and_its_call_has_the_error() -> None:
    async with ControllerInMemory() as node:
        asked = request(4, "1")
        asked["resources"] = [*asked["resources"], *request(4, "2")["resources"]]
        call = a_call(API, 4)
        body = memoryview(encode_request_body(API.key, 4, asked))
        node_seen: Any = node
        answer: Any = await fields_later(API.handle(decode_request(API.key, 4, body), call, node_seen))
        assert isinstance(answer["results"], MadeItems)
        results = [at_once(each)["error_code"] for each in answer["results"]]
        assert results == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert error_code(call) == ErrorCode.INVALID_REQUEST
