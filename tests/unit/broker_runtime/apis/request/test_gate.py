"""The gate that every call passes before its handler: an authorizer refuses there, and a throttle slows down."""

import asyncio
from typing import Any, cast

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.call import Call, Ending
from broker_runtime.apis.request.context import ApiSpec, Gate
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.observed import error_code
from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.messages import Fields, decode_response
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import FETCH, FIND_COORDINATOR, PRODUCE
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

FOUND = {"error_code": ErrorCode.NONE, "error_message": None, "node_id": 1, "host": "h", "port": 1}
REFUSED = {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "error_message": None, "node_id": -1} | {
    "host": "",
    "port": -1,
}


class Guarded:
    """A dispatcher behind a gate, on a node that leads a partition."""

    def __init__(self, gate: Gate) -> None:
        house = LogHouse()
        self.node = LeadingNode(leading(house.log, 1), house.clock)
        self.handled: list[str] = []
        self.ended: list[Call] = []
        self.peer = NotedConnection()
        find: ApiSpec[Any] = ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 4), self._find)
        self.dispatch: Dispatcher[Any] = Dispatcher(self.node, [find, produce.API, fetch.API], self.ended.append, gate)

    def _find(self, request: Any, call: Call, context: object) -> Fields:
        self.handled.append(request.key)
        return FOUND

    def ask(self, key: int, version: int, content: dict[str, Any]) -> Reply | PendingReply:
        return self.dispatch.handle(memoryview(encode_request(key, version, 3, content))[4:], self.peer)

    def find(self) -> Reply | PendingReply:
        return self.ask(FIND_COORDINATOR, 3, {"key": "group", "key_type": 0})


def read(key: int, version: int, reply: Reply | PendingReply) -> Any:
    """The decoded body. All versions here are flexible: size, correlation id and tagged fields come before it."""
    assert isinstance(reply, tuple)
    return decode_response(key, version, memoryview(b"".join(cast("tuple[bytes, ...]", reply)))[9:])


def test_a_call_that_the_gate_answers_does_not_reach_its_handler() -> None:
    guarded = Guarded(lambda call: REFUSED if call.request.key == "secret" else None)
    assert read(FIND_COORDINATOR, 3, guarded.find()).node_id == 1
    answer = guarded.ask(FIND_COORDINATOR, 3, {"key": "secret", "key_type": 0})
    assert read(FIND_COORDINATOR, 3, answer).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert guarded.handled == ["group"]
    assert [(call.ending, error_code(call)) for call in guarded.ended] == [
        (Ending.ANSWERED, 0),
        (Ending.ANSWERED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ]


def test_a_gate_may_end_the_connection() -> None:
    def gate(call: Call) -> None:
        raise ProtocolError("not-allowed", "nobody may ask this")

    guarded = Guarded(gate)
    with pytest.raises(ProtocolError, match="nobody may ask this"):
        guarded.find()
    assert [(call.ending, call.refusal) for call in guarded.ended] == [(Ending.REFUSED, "not-allowed")]
    assert not guarded.handled


async def test_a_gate_may_take_its_time() -> None:
    async def refuse() -> Fields:
        return REFUSED

    guarded = Guarded(lambda call: refuse())
    answer = guarded.find()
    assert isinstance(answer, PendingReply)
    arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    answer.on_complete(arrived.set_result)
    reply = await arrived
    assert reply is not None
    assert read(FIND_COORDINATOR, 3, reply).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not guarded.handled


def test_a_throttled_call_is_handled_and_its_answer_has_the_throttle_time() -> None:
    guarded = Guarded(lambda call: call.throttle(1500))
    found = read(FIND_COORDINATOR, 3, guarded.find())
    assert (found.node_id, found.throttle_time.total_seconds()) == (1, 1.5)
    assert guarded.peer.throttle_s == 1.5
    assert [call.throttle_ms for call in guarded.ended] == [1500]


@pytest.mark.parametrize(
    ("key", "version", "content"),
    [
        (PRODUCE, 9, {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": []}),
        (
            FETCH,
            12,
            {
                "max_wait": 0,
                "min_bytes": 0,
                "session_epoch": -1,
                "topics": [],
                "forgotten_topics_data": [],
            },
        ),
    ],
    ids=["Produce", "Fetch"],
)
async def test_answers_that_handlers_pack_themselves_tell_it_too(
    key: int, version: int, content: dict[str, Any]
) -> None:
    guarded = Guarded(lambda call: call.throttle(20))
    reply = guarded.ask(key, version, content)
    assert read(key, version, reply).throttle_time.total_seconds() == 0.02
