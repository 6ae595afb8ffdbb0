"""Fence orders to the active controller."""

from functools import partial

import pytest
from kio.schema.broker_heartbeat.v0.response import BrokerHeartbeatResponse
from kio.schema.errors import ErrorCode

from sluicegate_operator.fleet.kafka import controllers
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, fence
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import AdminConnectionError
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from tests.support.fakes.scripted_peer import NO_THROTTLE, SERVED, PeerRequest, ScriptedPeer, encode, framed, versions

BROKER_HEARTBEAT = 63
ORDERS = [FenceOrder(number, 7, f"broker {number} is gone") for number in range(3)]
PLACE = ControllerPlace(100, "c0")


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ScriptedPeer:
    peer = ScriptedPeer()
    peer.answer(versions({**SERVED, BROKER_HEARTBEAT: 0}))
    monkeypatch.setattr(controllers, "AdminClient", partial(AdminClient, connect=peer.connect))
    return peer


async def test_an_order_that_the_controller_refuses_stops_no_other(peer: ScriptedPeer) -> None:
    asked = 0

    def answer(request: PeerRequest) -> bytes:
        nonlocal asked
        asked += 1
        code = ErrorCode.stale_broker_epoch if asked == 1 else ErrorCode.none
        reply = BrokerHeartbeatResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            is_caught_up=False,
            is_fenced=True,
            should_shut_down=True,
        )
        return framed(request.correlation_id, b"\x00" + encode(reply))

    peer.script(BROKER_HEARTBEAT, answer)
    refused = await fence(PLACE, ORDERS)
    assert asked == 3
    assert {order.broker_id: error.name for order, error in refused.items()} == {0: "STALE_BROKER_EPOCH"}


async def test_a_controller_that_does_not_answer_is_an_error(peer: ScriptedPeer) -> None:
    peer.refuse = True
    with pytest.raises(AdminConnectionError):
        await fence(PLACE, ORDERS)
