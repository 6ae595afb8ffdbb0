"""A broker whose groups have no members yet: nobody is kept waiting for one."""

from typing import Any

import pytest

from broker_runtime.apis import without_groups
from broker_runtime.errors import ErrorCode
from tests.support.controller import ControllerInMemory
from tests.support.coordinating_broker import versions


@pytest.mark.parametrize("version", versions(without_groups.JOIN_GROUP_API))
async def test_nobody_can_join(version: int) -> None:
    content: dict[str, Any] = {"group_id": "group", "session_timeout": 45_000, "member_id": "me"}
    content |= {"protocol_type": "consumer", "protocols": []} | ({"rebalance_timeout": 5} if version else {})
    async with ControllerInMemory() as node:
        answer = await node.ask(without_groups.JOIN_GROUP_API, version, content)
        assert answer["error_code"] == ErrorCode.GROUP_AUTHORIZATION_FAILED
