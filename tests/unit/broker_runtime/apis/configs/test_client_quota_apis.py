"""AlterClientQuotas and DescribeClientQuotas on every version."""

from typing import Any

import pytest

from broker_runtime.apis.configs import alter_client_quotas, describe_client_quotas
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.quotas import ClientQuotaRecord
from tests.support.oracles.counted_iterations import counted_iterations
from tests.support.worlds.controller import ControllerInMemory

RATE = "connection_creation_rate"


def alteration(*entries: tuple[str | None, float | None], validate_only: bool = False) -> dict[str, Any]:
    return {
        "entries": [
            {
                "entity": [{"entity_type": "ip", "entity_name": name}],
                "ops": [{"key": RATE, "value": value or 0.0, "remove": value is None}],
            }
            for name, value in entries
        ],
        "validate_only": validate_only,
    }


def question(match_type: int, match: str | None = None) -> dict[str, Any]:
    return {"components": [{"entity_type": "ip", "match_type": match_type, "match": match}], "strict": False}


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_set_found_and_removed(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.ask(alter_client_quotas.API, version, alteration(("10.0.0.1", 5.0), (None, 20.0)))
        found = await node.ask(describe_client_quotas.API, version, question(2))
        assert [(e["entity"][0]["entity_name"], e["values"]) for e in found["entries"]] == [
            (None, [{"key": RATE, "value": 20.0}]),
            ("10.0.0.1", [{"key": RATE, "value": 5.0}]),
        ]
        await node.ask(alter_client_quotas.API, version, alteration(("10.0.0.1", None), (None, None)))
        assert (await node.ask(describe_client_quotas.API, version, question(2)))["entries"] == []


async def test_each_entry_has_its_own_result_and_an_entity_may_occur_once() -> None:
    async with ControllerInMemory() as node:
        asked = alteration(("10.0.0.1", 5.0), ("10.0.0.2", -1.0), ("10.0.0.1", 6.0))
        answer = await node.ask(alter_client_quotas.API, 1, asked)
        assert [entry["error_code"] for entry in answer["entries"]] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert node.image.quotas.ip_rate("10.0.0.1") == 5.0


async def test_host_names_must_resolve() -> None:
    async with ControllerInMemory() as node:
        node.hosts["known"] = "10.0.0.9"
        answer = await node.ask(alter_client_quotas.API, 1, alteration(("known", 5.0), ("unknown", 5.0)))
        assert [entry["error_message"] for entry in answer["entries"]] == [
            None,
            "unknown is not a valid IP or resolvable host.",
        ]


async def test_validating_changes_nothing_and_names_are_limited() -> None:
    async with ControllerInMemory() as node:
        await node.ask(alter_client_quotas.API, 1, alteration((None, 5.0), validate_only=True))
        assert node.image.quotas == {}
        many = alteration(*((f"host-{n}", 5.0) for n in range(101)))
        answer = await node.ask(alter_client_quotas.API, 1, many)
        assert {entry["error_code"] for entry in answer["entries"]} == {ErrorCode.INVALID_REQUEST}


async def test_a_bad_filter_is_refused_as_a_whole() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(describe_client_quotas.API, 1, question(0))
        assert (answer["error_code"], answer["entries"]) == (ErrorCode.INVALID_REQUEST, None)


def one(entity: dict[str, str], **values: float) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value, "remove": False} for key, value in values.items()],
    }


@pytest.mark.parametrize("version", [0, 1])
async def test_a_connection_group_with_one_address_and_a_rate(version: int) -> None:
    group = {"connection-group": "shop/ingest"}
    async with ControllerInMemory() as node:
        entries = [one(group | {"ip": "10.0.0.1"}, member=1.0), one(group, connection_creation_rate=5.0)]
        answer = await node.ask(alter_client_quotas.API, version, {"entries": entries, "validate_only": False})
        assert [entry["error_code"] for entry in answer["entries"]] == [ErrorCode.NONE] * 2
        asked = {"entity_type": "connection-group", "match_type": 0, "match": "shop/ingest"}
        found = await node.ask(describe_client_quotas.API, version, {"components": [asked], "strict": False})
        assert [(len(e["entity"]), e["values"]) for e in found["entries"]] == [
            (1, [{"key": RATE, "value": 5.0}]),
            (2, [{"key": "member", "value": 1.0}]),
        ]
        assert (await node.ask(describe_client_quotas.API, version, question(2)))["entries"] == []


async def test_the_controllers_limits_of_groups_are_those_of_its_configuration() -> None:
    async with ControllerInMemory(properties={"sluicegate.connection.groups.max": "1"}) as node:
        entries = [one({"connection-group": name}, connection_creation_rate=5.0) for name in ("a", "b")]
        answer = await node.ask(alter_client_quotas.API, 1, {"entries": entries, "validate_only": False})
        assert [entry["error_message"] for entry in answer["entries"]] == [
            None,
            "There are already 1 connection-groups, the maximum that sluicegate.connection.groups.max allows",
        ]


async def test_ten_thousand_members_are_described_over_many_iterations() -> None:
    group = {"connection-group": "g"}
    async with ControllerInMemory() as node:
        image = node.image
        for n in range(10_000):
            entity = (("connection-group", "g"), ("ip", f"10.0.{n >> 8}.{n & 255}"))
            image.apply(ClientQuotaRecord(entity, "member", 1.0), image.next_offset)
        asked = {"entity_type": "connection-group", "match_type": 0, "match": group["connection-group"]}
        with counted_iterations() as iterations:
            found = await node.ask(describe_client_quotas.API, 1, {"components": [asked], "strict": False})
        assert len(found["entries"]) == 10_000
        assert iterations.count >= 20


def of_clients(*names: str, value: float | None = 5.0) -> dict[str, Any]:
    ops = [{"key": "producer_byte_rate", "value": value or 0.0, "remove": value is None}]
    entries = [{"entity": [{"entity_type": "client-id", "entity_name": name}], "ops": ops} for name in names]
    return {"entries": entries, "validate_only": False}


async def altered(node: ControllerInMemory, asked: dict[str, Any]) -> list[tuple[ErrorCode, str]]:
    answer = await node.ask(alter_client_quotas.API, 1, asked)
    return [(ErrorCode(entry["error_code"]), entry["error_message"] or "") for entry in answer["entries"]]


async def test_the_entities_with_quotas_are_limited() -> None:
    async with ControllerInMemory(properties={"sluicegate.client.quotas.max": "2"}) as node:
        codes = await altered(node, of_clients("a", "b", "c"))
        assert [code for code, _ in codes] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
        assert "sluicegate.client.quotas.max" in codes[2][1]
        assert (await altered(node, alteration(("10.0.0.1", 5.0))))[0][0] == ErrorCode.POLICY_VIOLATION
        assert await altered(node, of_clients("a", value=6.0)) == [(ErrorCode.NONE, "")]
        both = [*of_clients("a", value=None)["entries"], *of_clients("c", "d")["entries"]]
        codes = await altered(node, {"entries": both, "validate_only": False})
        assert [code for code, _ in codes] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
        assert {entity[0][1] for entity in node.image.quotas} == {"b", "c"}


async def test_an_entity_that_names_a_type_twice_is_the_same_entity() -> None:
    """The last name of a type counts. An entity that could be removed several times would make room for others."""
    async with ControllerInMemory(properties={"sluicegate.client.quotas.max": "2"}) as node:
        entries = [one({"user": name}, consumer_byte_rate=5.0) for name in ("a", "b")]
        await node.ask(alter_client_quotas.API, 1, {"entries": entries, "validate_only": False})

        def removed(*names: str) -> dict[str, Any]:
            entity = [{"entity_type": "user", "entity_name": name} for name in names]
            return {"entity": entity, "ops": [{"key": "consumer_byte_rate", "value": 0.0, "remove": True}]}

        changes = [removed("a"), removed("x", "a"), removed("y", "a")]
        more = [one({"user": name}, consumer_byte_rate=5.0) for name in ("c", "d")]
        answer = await node.ask(alter_client_quotas.API, 1, {"entries": [*changes, *more], "validate_only": False})
        assert [entry["error_code"] for entry in answer["entries"]] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
            ErrorCode.POLICY_VIOLATION,
        ]


async def test_the_names_of_all_quotas_are_limited() -> None:
    async with ControllerInMemory(properties={"sluicegate.client.quotas.names.bytes.max": "1000"}) as node:
        assert await altered(node, of_clients("ö" * 200)) == [(ErrorCode.NONE, "")]
        ((code, message),) = await altered(node, of_clients("ö" * 301))
        assert code == ErrorCode.POLICY_VIOLATION
        assert "sluicegate.client.quotas.names.bytes.max" in message
        assert await altered(node, of_clients("ö" * 200, value=6.0)) == [(ErrorCode.NONE, "")]
        assert node.image.copy().quotas.names_bytes == 400
        await altered(node, of_clients("ö" * 200, value=None))
        assert node.image.quotas.names_bytes == 0
        assert await altered(node, of_clients("ö" * 301)) == [(ErrorCode.NONE, "")]


async def test_one_request_writes_as_many_records_as_in_kafka() -> None:
    async with ControllerInMemory() as node:
        names = [f"client-{number}" for number in range(10_001)]
        codes = await altered(node, of_clients(*names))
        assert {code for code, _ in codes} == {ErrorCode.POLICY_VIOLATION}
        assert node.image.quotas == {}
        assert {code for code, _ in await altered(node, of_clients(*names[1:]))} == {ErrorCode.NONE}
