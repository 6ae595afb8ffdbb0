"""AlterConfigs on every version: it replaces the whole configuration."""

from typing import Any

import pytest

from broker_runtime.apis.configs.alter_configs import API
from broker_runtime.errors import ErrorCode
from tests.support.worlds.controller import ControllerInMemory


def request(*resources: tuple[int, str, dict[str, str]], validate_only: bool = False) -> dict[str, Any]:
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
            for kind, name, configs in resources
        ],
        "validate_only": validate_only,
    }


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
async def test_the_whole_configuration_is_replaced(version: int) -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        await node.ask(API, version, request((4, "", {"max.connections": "5", "log.segment.bytes": "1000"})))
        answer = await node.ask(
            API, version, request((4, "", {"max.connections": "6"}), (2, "nope", {}), (4, "1", {}), (4, "1", {}))
        )
        assert [each["error_code"] for each in answer["responses"]] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert node.image.configs.of_broker(None) == {"max.connections": "6"}


async def test_validating_changes_nothing() -> None:
    async with ControllerInMemory() as node:
        await node.ask(API, 2, request((4, "", {"max.connections": "6"}), validate_only=True))
        assert node.image.configs.of_broker(None) == {}
