"""IncrementalAlterConfigs on every version: changes the keys that are named, no others."""

from typing import Any

import pytest

from broker_runtime.apis.configs.incremental_alter_configs import API
from broker_runtime.errors import ErrorCode
from tests.support.worlds.controller import ControllerInMemory

SET, DELETE = 0, 1


def request(*changes: tuple[str, int, str | None], validate_only: bool = False, name: str = "") -> dict[str, Any]:
    configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
    return {
        "resources": [{"resource_type": 4, "resource_name": name, "configs": configs}],
        "validate_only": validate_only,
    }


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_only_what_is_named_changes(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.ask(API, version, request(("max.connections", SET, "5"), ("log.segment.bytes", SET, "1000")))
        answer = await node.ask(API, version, request(("log.segment.bytes", DELETE, None)))
        assert answer["responses"] == [
            {"error_code": ErrorCode.NONE, "error_message": None, "resource_type": 4, "resource_name": ""}
        ]
        assert node.image.configs.of_broker(None) == {"max.connections": "5"}


async def test_a_resource_is_changed_wholly_or_not_at_all() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(API, 1, request(("max.connections", SET, "5"), ("node.id", SET, "3")))
        assert answer["responses"][0]["error_code"] == ErrorCode.INVALID_REQUEST
        assert answer["responses"][0]["error_message"] == "Cannot update these configs dynamically: [node.id]"
        assert node.image.configs.of_broker(None) == {}


async def test_validating_changes_nothing() -> None:
    async with ControllerInMemory() as node:
        answer = await node.ask(API, 1, request(("max.connections", SET, "6"), validate_only=True))
        assert answer["responses"][0]["error_code"] == ErrorCode.NONE
        assert node.image.configs.of_broker(None) == {}
