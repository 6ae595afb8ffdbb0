"""Requests without an answer: refused at once, refused later, or never forwarded."""

import asyncio
import logging
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.cluster import broker_heartbeat
from broker_runtime.apis.cluster.api_versions import with_api_versions
from broker_runtime.apis.configs import alter_client_quotas
from broker_runtime.apis.request.call import Call, Ending
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.forwarding import active_only, forwarded
from broker_runtime.apis.topics import delete_topics
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.messages import Fields, encode_response_body
from broker_runtime.wire.reply import Parts, PendingReply, Reply
from broker_runtime.wire.versions import ALTER_CLIENT_QUOTAS, API_VERSIONS, DELETE_TOPICS, FIND_COORDINATOR
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

KEY_OF = {"key": "group", "key_type": 0}
FIND = memoryview(encode_request(FIND_COORDINATOR, 3, 7, KEY_OF))[4:]
DELETE = memoryview(encode_request(DELETE_TOPICS, 4, 7, {"topic_names": ["a"], "timeout": 0}))[4:]
ANSWER = {"error_code": ErrorCode.NONE, "error_message": None, "node_id": 1, "host": "h", "port": 1}


class Controller:
    """A controller of a release without envelopes that answers forwarded requests, or fails with `problem`."""

    def __init__(self, problem: KafkaError | None = None) -> None:
        self.problem = problem
        self.bodies: list[bytes] = []

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
        if api_key == API_VERSIONS:
            known = {"error_code": ErrorCode.NONE, "api_keys": ()}
            return (memoryview(encode_response_body(API_VERSIONS, 0, known)),)
        self.bodies.append(bytes(body))
        if self.problem is not None:
            raise self.problem
        return (memoryview(b"answer"),)


class Node:
    """A broker that forwards to these controllers, or a controller that is active or not."""

    def __init__(self, controller: Any = None, slow_controller: Any = None) -> None:
        self.clock = ManualClock()
        self.controller = controller
        self.slow_controller = slow_controller


class Ends:
    """The ends of calls that an observer receives."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @property
    def told(self) -> list[Ending]:
        return [call.ending for call in self.calls]


def find_coordinator(handle: Callable[[Call], Any]) -> ApiSpec[Any]:
    return ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 4), lambda request, call, context: handle(call))


def dispatcher(api: ApiSpec[Any], node: Node | None = None, ends: Ends | None = None) -> Dispatcher[Any]:
    return Dispatcher(node or Node(), [api], (ends or Ends()).calls.append)


async def finished(answer: Reply | PendingReply) -> Reply | None:
    assert isinstance(answer, PendingReply)
    arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    answer.on_complete(arrived.set_result)
    return await arrived


async def fails(error: Exception) -> Fields:
    raise error


async def test_an_answer_that_comes_later() -> None:
    async def handle() -> Fields:
        return ANSWER

    ends, peer = Ends(), NotedConnection()
    reply = await finished(dispatcher(find_coordinator(lambda _: handle()), ends=ends).handle(FIND, peer))
    assert reply is not None
    assert struct.unpack_from(">ii", b"".join(cast("Any", reply)))[1] == 7
    assert peer.refusals == []
    assert ends.told == [Ending.ANSWERED]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ProtocolError("malformed", "odd"), "malformed", "odd"),
        (KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "gone"), "not-answered", "BROKER_NOT_AVAILABLE: gone"),
        (ZeroDivisionError("ours"), "handler-failed", "ZeroDivisionError('ours')"),
    ],
)
async def test_a_request_that_turns_out_bad_later_is_refused(error: Exception, kind: str, text: str) -> None:
    ends, peer = Ends(), NotedConnection()
    dispatch = dispatcher(find_coordinator(lambda _: fails(error)), ends=ends)
    assert await finished(dispatch.handle(FIND, peer)) is None
    ((found_kind, found_text),) = peer.refusals
    assert found_kind == kind
    assert text in found_text
    assert [(call.ending, call.refusal) for call in ends.calls] == [(Ending.REFUSED, kind)]


async def test_our_own_mistakes_are_traced_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    dispatch = dispatcher(find_coordinator(lambda _: fails(ZeroDivisionError())), node)
    for _ in range(3):
        await finished(dispatch.handle(FIND, NotedConnection()))
    traced = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in traced] == [
        "the handler of FindCoordinator failed; the connection is closed"
    ]
    assert traced[0].exc_info is not None
    node.clock.advance(10)
    await finished(dispatch.handle(FIND, NotedConnection()))
    assert len(caplog.records) == 2


class Waiting:
    """A handler that waits until it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.given_up = asyncio.Event(), asyncio.Event()
        self.ends, self.peer = Ends(), NotedConnection()
        self.dispatch = dispatcher(find_coordinator(lambda _: self._wait()), ends=self.ends)

    async def _wait(self) -> Fields:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.set()
        return ANSWER

    async def ask(self) -> PendingReply:
        pending = self.dispatch.handle(FIND, self.peer)
        await self.begun.wait()
        assert isinstance(pending, PendingReply)
        return pending


async def test_a_pending_request_is_cancelled_when_its_client_disconnects() -> None:
    waiting = Waiting()
    (await waiting.ask()).cancel()
    await waiting.given_up.wait()
    await waiting.dispatch.close()
    assert waiting.peer.refusals == []
    assert waiting.ends.told == [Ending.CANCELLED]


async def test_a_stop_cancels_what_waits_and_hangs_up() -> None:
    waiting = Waiting()
    pending = await waiting.ask()
    await waiting.dispatch.close()
    assert await finished(pending) is None
    assert waiting.peer.refusals == []
    assert waiting.ends.told == [Ending.CANCELLED]


async def test_a_bad_request_is_not_forwarded() -> None:
    controller, ends = Controller(), Ends()
    dispatch = dispatcher(forwarded(delete_topics.API), Node(controller), ends)
    reply = await finished(dispatch.handle(DELETE, NotedConnection()))
    assert reply is not None
    assert b"".join(bytes(cast("Any", chunk)) for chunk in reply) == b"\0\0\0\x0b\0\0\0\x07\0answer"
    assert len(controller.bodies) == 1
    with pytest.raises(ProtocolError) as refused:
        dispatch.handle(DELETE[:-3], NotedConnection())
    assert refused.value.kind == "truncated"
    assert len(controller.bodies) == 1
    assert ends.told == [Ending.ANSWERED, Ending.REFUSED]
    assert ends.calls[0].request.topic_names == ("a",)


async def test_a_controller_that_cannot_be_reached_ends_the_connection() -> None:
    node = Node(Controller(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no controller")))
    peer = NotedConnection()
    assert await finished(dispatcher(forwarded(delete_topics.API), node).handle(DELETE, peer)) is None
    assert peer.refusals == [("not-answered", "DeleteTopics: BROKER_NOT_AVAILABLE: no controller")]


async def test_a_controller_on_standby_hangs_up_unless_its_answer_can_say_so() -> None:
    node = Node(SimpleNamespace(active=False))
    with pytest.raises(ProtocolError, match="not the active one") as refused:
        dispatcher(active_only(delete_topics.API), node).handle(DELETE, NotedConnection())
    assert refused.value.kind == "not-controller"
    assert active_only(broker_heartbeat.API) is broker_heartbeat.API


async def test_what_is_not_served_is_refused() -> None:
    ends = Ends()
    dispatch = dispatcher(delete_topics.API, ends=ends)
    with pytest.raises(ProtocolError, match="API key 10 is not served"):
        dispatch.handle(FIND, NotedConnection())
    with pytest.raises(ProtocolError, match="DeleteTopics v0 is not served \\(1 to 6\\)"):
        dispatch.handle(memoryview(struct.pack(">hhih", DELETE_TOPICS, 0, 1, -1)), NotedConnection())
    with pytest.raises(ProtocolError, match="API key 18"):
        dispatch.handle(memoryview(struct.pack(">hhih", API_VERSIONS, 0, 1, -1)), NotedConnection())
    assert [(call.api.key, call.refusal) for call in ends.calls] == [(DELETE_TOPICS, "unsupported-version")]


async def test_an_unsupported_request_gets_an_empty_reply_if_configured() -> None:
    ends, peer = Ends(), NotedConnection()
    wanted = [False]
    apis: list[ApiSpec[Any]] = [delete_topics.API]
    dispatch: Dispatcher[Any] = Dispatcher(Node(), apis, ends.calls.append, replies_empty=lambda: wanted[0])
    unserved = memoryview(struct.pack(">hhih", DELETE_TOPICS, 0, 9, -1) + b"whatever")
    with pytest.raises(ProtocolError):
        dispatch.handle(unserved, peer)
    wanted[0] = True
    assert dispatch.handle(unserved, peer) == (struct.pack(">ii", 4, 9),)
    assert dispatch.handle(FIND, peer) == (struct.pack(">ii", 4, 7),)
    assert peer.noted == [
        ("unsupported-version", "DeleteTopics v0 is not served (1 to 6)"),
        ("unknown-api", "API key 10 is not served on this listener"),
    ]
    assert peer.refusals == []
    assert [(call.ending, call.refusal) for call in ends.calls] == [(Ending.REFUSED, "unsupported-version")] * 2
    for cut in (unserved[:9], memoryview(struct.pack(">hhih", 99, 0, 9, 5))):
        with pytest.raises(ProtocolError):
            dispatch.handle(cut, peer)


@pytest.mark.parametrize("tags", [b"", b"\xff\x01" + bytes(2 * 255)], ids=["none", "too many"])
async def test_a_bad_header_of_an_unknown_version_ends_the_connection(tags: bytes) -> None:
    """Apache Kafka reads the tagged fields of the header, too, and no answer has the form of the version."""
    api: ApiSpec[Any] = with_api_versions()[0]
    frame = struct.pack(">hhih", API_VERSIONS, 142, 9, -1) + tags
    with pytest.raises(ProtocolError):
        dispatcher(api).handle(memoryview(frame), NotedConnection())


async def test_a_request_that_needs_dns_is_forwarded_over_a_separate_link() -> None:
    common, own = Controller(), Controller()
    dispatch = dispatcher(forwarded(alter_client_quotas.API), Node(common, own))
    for name in ("10.0.0.1", "shop.example"):
        entity = [{"entity_type": "ip", "entity_name": name}]
        content = {"entries": [{"entity": entity, "ops": []}], "validate_only": False}
        frame = memoryview(encode_request(ALTER_CLIENT_QUOTAS, 1, 7, content))[4:]
        assert await finished(dispatch.handle(frame, NotedConnection())) is not None
    assert [b"10.0.0.1" in body for body in common.bodies] == [True]
    assert [b"shop.example" in body for body in own.bodies] == [True]
