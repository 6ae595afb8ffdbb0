"""InitProducerId: requests that are refused before an id is assigned."""

import pytest

from broker_runtime.apis.produce.init_producer_id import API
from broker_runtime.errors import ErrorCode
from tests.support.worlds.controller import ControllerInMemory


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 3, ErrorCode.INVALID_REQUEST),
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_refused(transactional_id: str | None, producer_id: int, epoch: int, code: ErrorCode) -> None:
    asked = {
        "transactional_id": transactional_id,
        "transaction_timeout": 1000,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }
    async with ControllerInMemory() as node:
        assert (await node.ask(API, 4, asked))["error_code"] == code
