"""BrokerMetadata: the brokers in the answer, the address of each, and that Kafka's clients are not offered this API."""

import asyncio
import struct
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.cluster import broker_metadata, broker_registration
from broker_runtime.apis.configs import incremental_alter_configs
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.config import broker_settings
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.metadata.areas.brokers import BrokerEndpoint, RegisterBroker
from broker_runtime.node.limits import request_limits
from broker_runtime.wire.encoding.reader import CountingReader, RequestReader
from broker_runtime.wire.limits import ItemBudget, RequestTooLargeError
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.versions import API_VERSIONS, GET_TELEMETRY_SUBSCRIPTIONS, OWN_KEYS_FROM, PUSH_TELEMETRY
from kafka_bytes.own_keys import BROKER_METADATA
from tests.support.requests.calls import a_call, handled
from tests.support.requests.request_frames import encode_request
from tests.support.worlds.controller import ControllerInMemory

RACK = {"key": "rack", "value": "r8a9"}


def registration(broker_id: int, *listeners: str, tags: int = 1) -> dict[str, Any]:
    return {
        "broker_id": broker_id,
        "cluster_id": "cluster-of-the-tests",
        "incarnation_id": UUID(int=broker_id),
        "listeners": [
            {"name": name, "host": f"h{broker_id}", "port": 9092, "security_protocol": 0} for name in listeners
        ],
        "features": [],
        "rack": None,
        "protocol_version_min": 1,
        "protocol_version_max": 2,
        "broker_tags": [RACK] * tags,
    }


async def asked(node: ControllerInMemory, *node_ids: int) -> list[dict[str, Any]]:
    body = struct.pack(f">i{len(node_ids)}i", len(node_ids), *node_ids)
    return await told(node, body)


async def told(node: ControllerInMemory, body: bytes) -> list[dict[str, Any]]:
    answer: Any = broker_metadata.API.handle(
        RequestReader(memoryview(body), 0, flexible=False), a_call(broker_metadata.API, 0), cast("Any", node)
    )
    reply = memoryview(b"".join(await answer))
    assert struct.unpack_from(">ii", reply) == (len(reply) - 4, 1)
    return [
        dict(asdict(broker), tags=[asdict(tag) for tag in broker.tags])
        for broker in decode_response(BROKER_METADATA, 0, reply[8:]).brokers
    ]


async def three_brokers(node: ControllerInMemory) -> None:
    for broker_id in (2, 1, 3):
        await node.ask(broker_registration.API, 4, registration(broker_id, "OTHER" if broker_id == 3 else "PLAINTEXT"))


async def test_the_answer_has_the_requested_brokers() -> None:
    async with ControllerInMemory() as node:
        await three_brokers(node)
        for node_ids, expected in (
            ((), [1, 2, 3]),
            ((-1,), [1]),
            ((3, 2), [3, 2]),
            ((1, -1, 1), [1]),
            ((2, 77, -2), [2]),
            ((77,), []),
            ((-2,), []),
        ):
            assert [broker["node_id"] for broker in await asked(node, *node_ids)] == expected


async def test_the_answer_describes_fenced_brokers() -> None:
    async with ControllerInMemory() as node:
        await three_brokers(node)
        assert all(broker.fenced for broker in node.image.brokers.values())
        _, second, third = await asked(node)
        assert (second["host"], second["port"]) == ("h2", 9092)
        assert (second["protocol_version_min"], second["protocol_version_max"]) == (1, 2)
        assert RACK in second["tags"]
        assert (third["host"], third["port"]) == ("", -1), "it has no listener like the one that was asked on"


async def test_tags_change_with_the_dynamic_configuration() -> None:
    async with ControllerInMemory() as node:
        await three_brokers(node)
        configs = [{"name": "tag.rack", "config_operation": 0, "value": "r9"}]
        change = {"resource_type": 4, "resource_name": "2", "configs": configs}
        answer = await node.ask(incremental_alter_configs.API, 1, {"resources": [change], "validate_only": False})
        assert answer["responses"][0]["error_code"] == ErrorCode.NONE
        first, second, _ = await asked(node)
        assert {"key": "rack", "value": "r9"} in second["tags"]
        assert RACK in first["tags"]


async def test_a_text_that_is_too_long_for_an_answer_cannot_be_registered() -> None:
    known = registration(4, "PLAINTEXT")
    longest = {"key": "rack", "value": 32_767 * "x"}
    too_long = {"key": "rack", "value": 16_384 * "\u20ac"}
    (listener,) = known["listeners"]
    async with ControllerInMemory() as node:
        await node.ask(broker_registration.API, 4, known | {"broker_tags": [longest]})
        for change in (
            {"broker_tags": [too_long]},
            {"rack": 32_768 * "r"},
            {"listeners": [listener | {"host": 32_768 * "h"}]},
        ):
            answer = await node.ask(broker_registration.API, 4, known | change)
            assert answer["error_code"] == ErrorCode.INVALID_REGISTRATION
        assert (await asked(node, 4))[0]["tags"][-1] == longest


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ({"tag.broker.id": "7"}, "each broker reports its own broker.id"),
        ({"tag.a b": "7"}, "Unknown broker config name"),
        ({f"tag.t{number}": "x" for number in range(65)}, "65 keys begin with tag."),
    ],
)
async def test_tags_that_cannot_be_are_refused(tags: dict[str, str], says: str) -> None:
    async with ControllerInMemory() as node:
        configs = [{"name": name, "config_operation": 0, "value": value} for name, value in tags.items()]
        change = {"resource_type": 4, "resource_name": "", "configs": configs}
        answer = await node.ask(incremental_alter_configs.API, 1, {"resources": [change], "validate_only": False})
        assert answer["responses"][0]["error_code"] == ErrorCode.INVALID_REQUEST
        assert says in answer["responses"][0]["error_message"]


async def test_a_broker_that_says_too_much_is_not_registered() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(broker_registration.API, 4, registration(1, "PLAINTEXT", tags=129))
        assert answer["error_code"] == ErrorCode.INVALID_REGISTRATION


async def test_a_request_names_so_many_brokers_at_most() -> None:
    limits = request_limits(broker_settings({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092"}))
    body = struct.pack(">i10001i", 10_001, *range(10_001))
    reader = CountingReader(memoryview(body), 0, False, ItemBudget(limits, BROKER_METADATA))
    async with ControllerInMemory() as node:
        with pytest.raises(RequestTooLargeError, match="more than 10000 items"):
            broker_metadata.API.handle(reader, a_call(broker_metadata.API, 0), cast("Any", node))


@pytest.mark.parametrize(
    "body", [b"", b"\x00\x00", struct.pack(">i", -1), struct.pack(">ii", 2, 1), struct.pack(">ii", 2**31 - 1, 1)]
)
async def test_a_malformed_request_ends_its_connection(body: bytes) -> None:
    async with ControllerInMemory() as node:
        with pytest.raises(ProtocolError):
            await told(node, body)


async def test_bytes_behind_the_array_are_ignored() -> None:
    async with ControllerInMemory() as node:
        await three_brokers(node)
        assert [broker["node_id"] for broker in await told(node, struct.pack(">ii", 1, 2) + b"more")] == [2]


async def test_very_many_tags_are_told_over_many_time_slices() -> None:
    tags = tuple((f"t{number}", "x" * 100) for number in range(64))
    async with ControllerInMemory() as node:
        for broker_id in range(1, 41):
            epoch, endpoints = node.image.offset + 1, (BrokerEndpoint("PLAINTEXT", "h", 9092),)
            await node.write(RegisterBroker(broker_id, UUID(int=epoch), epoch, endpoints, None, tags=tags))
        slices = 0

        async def others() -> None:
            nonlocal slices
            while True:
                slices += 1
                await asyncio.sleep(0)

        waiting = asyncio.create_task(others())
        assert len(await asked(node)) == 40
        waiting.cancel()
        assert slices > 5


def test_kafkas_clients_never_hear_of_it() -> None:
    assert {api.key for api in BROKER_APIS if api.key >= OWN_KEYS_FROM} >= {BROKER_METADATA}
    assert BROKER_METADATA not in {api.key for api in CONTROLLER_APIS}
    (told,) = (api for api in BROKER_APIS if api.key == API_VERSIONS)
    frame = memoryview(encode_request(API_VERSIONS, 0, 7, {}))[4:]
    reply = handled(told, frame, SimpleNamespace())
    assert isinstance(reply, tuple)
    body = memoryview(b"".join(bytes(chunk) for chunk in reply if isinstance(chunk, bytes)))[8:]
    listed = {entry.api_key for entry in decode_response(API_VERSIONS, 0, body).api_keys}
    metrics = {GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY}
    assert listed == {api.key for api in BROKER_APIS if api.key < OWN_KEYS_FROM} - metrics
