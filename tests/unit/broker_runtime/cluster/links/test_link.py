"""The search of a request for the active controller: one round for our requests, until the time-out for a client's."""

import asyncio
from collections.abc import Sequence

import pytest

from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.config import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import encode_response
from broker_runtime.wire.reply import Parts
from broker_runtime.wire.versions import BROKER_HEARTBEAT
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

BEAT = {"broker_id": 1, "broker_epoch": 5, "current_metadata_offset": 9, "want_fence": False, "want_shut_down": False}
UNREACHABLE = None


def answered(code: ErrorCode) -> memoryview:
    content = {"error_code": code, "is_caught_up": True, "is_fenced": False, "should_shut_down": False}
    whole = encode_response(BROKER_HEARTBEAT, 1, 0, content)
    return memoryview(whole)[len(response_prefix(BROKER_HEARTBEAT, 1, 0, 0)) :]


class Ring:
    """Controllers that answer with an error code, or cannot be reached."""

    def __init__(self, controllers: Sequence[ErrorCode | None]) -> None:
        self.controllers = list(controllers)
        self.choices = len(controllers)
        self.server = None
        self.asked = 0
        self.at = 0

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> Parts:
        self.asked += 1
        code = self.controllers[self.at]
        if code is UNREACHABLE:
            self.move_on()
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "hung up")
        return (answered(code),)

    def move_on(self) -> None:
        self.at = (self.at + 1) % self.choices

    def turn_to(self, server: ServerAddress) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("standby", [ErrorCode.NOT_CONTROLLER, UNREACHABLE])
def test_standbys_are_passed_by(standby: ErrorCode | None) -> None:
    async def main() -> None:
        ring = Ring([standby, standby, ErrorCode.NONE])
        client = ControllerClient(ring, 5.0)
        for _ in range(2):
            assert (await client.request(BROKER_HEARTBEAT, 1, BEAT)).error_code == 0
        assert ring.asked == 4

    run(main(), ManualClock())


def test_without_an_active_one_each_is_asked_once() -> None:
    async def main() -> None:
        ring = Ring([ErrorCode.NOT_CONTROLLER, UNREACHABLE, ErrorCode.NOT_CONTROLLER])
        answer = await ControllerClient(ring, 5.0).request(BROKER_HEARTBEAT, 1, BEAT)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert ring.asked == 3
        nobody = Ring([UNREACHABLE, UNREACHABLE])
        with pytest.raises(KafkaError) as refused:
            await ControllerClient(nobody, 5.0).request(BROKER_HEARTBEAT, 1, BEAT)
        assert refused.value.code == ErrorCode.BROKER_NOT_AVAILABLE
        assert nobody.asked == 2

    run(main(), ManualClock())


def test_another_error_is_an_answer() -> None:
    async def main() -> None:
        ring = Ring([ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NONE])
        answer = await ControllerClient(ring, 5.0).request(BROKER_HEARTBEAT, 1, BEAT)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH

    run(main(), ManualClock())


def test_a_clients_request_waits_for_a_controller_until_its_time_is_over() -> None:
    async def main() -> None:
        ring = Ring([UNREACHABLE])
        began_s = clock.monotonic()
        with pytest.raises(KafkaError) as refused:
            await ControllerClient(ring, 5.0).forward(BROKER_HEARTBEAT, 1, memoryview(b""))
        assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
        assert clock.monotonic() - began_s == pytest.approx(5.0)
        assert 20 < ring.asked < 40

    clock = ManualClock()
    run(main(), clock)


def test_a_clients_request_goes_on_when_a_controller_is_there() -> None:
    """Without a pause: the pause is for a ring without an active controller."""

    async def main() -> None:
        began_s = clock.monotonic()
        ring = Ring([UNREACHABLE, UNREACHABLE, ErrorCode.NONE])
        answer = await ControllerClient(ring, 5.0).forward(BROKER_HEARTBEAT, 1, memoryview(b""))
        assert answer == (answered(ErrorCode.NONE),)
        assert ring.asked == 3
        assert clock.monotonic() == began_s

    clock = ManualClock()
    run(main(), clock)


def test_a_clients_request_reaches_a_new_controller_soon() -> None:
    """However long there was none, and wherever in the ring it is."""

    async def main() -> None:
        for active in range(3):
            ring = Ring([UNREACHABLE] * 3)
            asking = asyncio.ensure_future(ControllerClient(ring, 30.0).forward(BROKER_HEARTBEAT, 1, memoryview(b"")))
            await asyncio.sleep(10.0)
            ring.controllers[active] = ErrorCode.NONE
            began_s = clock.monotonic()
            await asking
            assert clock.monotonic() - began_s <= 0.2

    clock = ManualClock()
    run(main(), clock)
