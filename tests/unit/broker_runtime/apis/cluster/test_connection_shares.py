"""ConnectionShares: brokers report demands to the active controller, and get shares of rates of the cluster."""

from typing import Any

import pytest

from broker_runtime.apis.cluster import connection_shares
from broker_runtime.errors import ErrorCode
from tests.support.worlds.controller import ControllerInMemory

RATE = 300_000
NAME = "listener:EXTERNAL"


def report(broker_id: int, epoch: int, sequence: int = 1, **limit: int) -> dict[str, Any]:
    limits = [{"name": NAME, "rate": RATE, "share": 0, "demand": 0} | limit]
    return {
        "broker_id": broker_id,
        "broker_epoch": epoch,
        "sequence": sequence,
        "answered": -1,
        "is_full": True,
        "limits": limits,
    }


async def ask(node: ControllerInMemory, content: dict[str, Any]) -> Any:
    return await node.ask(connection_shares.API, 0, content)


async def test_brokers_get_shares_of_one_rate() -> None:
    async with ControllerInMemory() as node:
        first, second = await node.broker(1), await node.broker(2)
        waiting = await ask(node, report(1, first, demand=RATE))
        # The second broker may hold shares of a former term.
        assert (waiting["error_code"], waiting["shares"], waiting["more_soon"]) == (ErrorCode.NONE, [], True)
        answer = await ask(node, report(2, second))
        assert (answer["verdict"], answer["brokers"], answer["lease_ms"]) == (0, 2, 4_000)
        assert answer["controller_epoch"] == node.image.cluster.controller_epoch
        granted = await ask(node, report(1, first, 2, demand=RATE))
        shares = [one["share"] for each in (answer, granted) for one in each["shares"]]
        assert len(shares) == 2
        assert 0 < sum(shares) <= RATE


async def test_a_broker_of_another_epoch_is_refused() -> None:
    async with ControllerInMemory() as node:
        epoch = await node.broker(1)
        for broker_id, wrong in ((1, epoch + 1), (9, epoch)):
            assert (await ask(node, report(broker_id, wrong)))["error_code"] == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("limit", [{"share": -RATE}, {"rate": -1}, {"demand": -1}, {"name": "x" * 1_001}])
async def test_a_report_with_a_negative_number_or_a_long_name_is_refused(limit: dict[str, Any]) -> None:
    async with ControllerInMemory() as node:
        epoch = await node.broker(1)
        content = report(1, epoch)
        content["limits"] = [content["limits"][0] | limit]
        assert (await ask(node, content))["error_code"] == ErrorCode.INVALID_REQUEST


async def test_a_controller_on_standby_divides_nothing() -> None:
    async with ControllerInMemory() as node:
        epoch = await node.broker(1)
        await node.controller.stop()
        assert (await ask(node, report(1, epoch)))["error_code"] == ErrorCode.NOT_CONTROLLER


async def test_a_new_term_has_a_new_ledger() -> None:
    async with ControllerInMemory() as node:
        epoch = await node.broker(1)
        await ask(node, report(1, epoch, sequence=5))
        # A report that is not full follows one that the new term does not know.
        node.controller.connection_shares.end_term()
        again = await ask(node, report(1, epoch, sequence=6) | {"is_full": False})
        assert again["verdict"] == 1


async def test_a_report_has_a_limited_number_of_limits() -> None:
    async with ControllerInMemory(properties={"sluicegate.connection.groups.cluster.max": "0"}) as node:
        epoch = await node.broker(1)
        content = report(1, epoch)
        content["limits"] = [content["limits"][0] | {"name": f"group:{n}"} for n in range(1_001)]
        assert (await ask(node, content))["error_code"] == ErrorCode.INVALID_REQUEST
