"""What becomes of a request that cannot be answered: refused at once, refused later, or never passed on."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from broker_runtime.apis import alter_client_quotas
from broker_runtime.apis.context import ApiSpec, RequestContext
from broker_runtime.apis.dispatch import Dispatcher, RequestCount
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import ALTER_CLIENT_QUOTAS, API_VERSIONS, DELETE_TOPICS, FIND_COORDINATOR
from tests.support.controller import ControllerInMemory
from tests.support.request_frames import encode_request

KEY_OF = {"key": "group", "key_type": 0}
FIND = memoryview(encode_request(FIND_COORDINATOR, 3, 7, KEY_OF))[4:]
DELETE = memoryview(encode_request(DELETE_TOPICS, 4, 7, {"topic_names": ["a"], "timeout": 0}))[4:]
ANSWER = {"error_code": ErrorCode.NONE, "error_message": None, "node_id": 1, "host": "h", "port": 1}


class LocalPeer:
    listener = "CONTROLLER"
    peer = ("127.0.0.1", 0)


class SocketPeer(LocalPeer):
    def __init__(self) -> None:
        self.refusals: list[tuple[str, str]] = []

    def refuse(self, kind: str, text: str) -> None:
        self.refusals.append((kind, text))


class Controller:
    """Answers what is forwarded to it, or not."""

    def __init__(self, problem: KafkaError | None = None) -> None:
        self.problem = problem
        self.bodies: list[bytes] = []

    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        self.bodies.append(bytes(body))
        if self.problem is not None:
            raise self.problem
        return memoryview(b"answer")


@pytest.fixture
async def node() -> AsyncIterator[ControllerInMemory]:
    async with ControllerInMemory() as started:
        yield started


def find_coordinator(handle: Callable[[], Any]) -> ApiSpec:
    def handler(request: object, ctx: RequestContext, node: object) -> Any:
        return handle()

    return ApiSpec(FIND_COORDINATOR, "FindCoordinator", (0, 4), handler)


def unused() -> Fields:
    raise AssertionError("not for this node")


DELETE_API = ApiSpec(DELETE_TOPICS, "DeleteTopics", (1, 6), lambda *_: unused(), runs_on="controller")


def dispatcher(node: ControllerInMemory, api: ApiSpec, controller: Controller | None = None) -> Dispatcher:
    return Dispatcher(cast("Any", node), [api], controller)


async def finished(answer: Reply | PendingReply) -> Reply | None:
    assert isinstance(answer, PendingReply)
    arrived: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    answer.on_complete(arrived.set_result)
    return await arrived


async def fails(error: Exception) -> Fields:
    raise error


async def test_an_answer_that_comes_later(node: ControllerInMemory) -> None:
    async def handle() -> Fields:
        return ANSWER

    dispatch, peer = dispatcher(node, find_coordinator(handle)), SocketPeer()
    reply = await finished(dispatch.handle(FIND, peer))
    assert reply is not None
    assert struct.unpack_from(">ii", b"".join(cast("Any", reply)))[1] == 7
    assert peer.refusals == []
    assert list(dispatch.collect()) == [RequestCount("FindCoordinator", 1, 0)]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ProtocolError("malformed", "odd"), "malformed", "odd"),
        (KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "gone"), "not-answered", "BROKER_NOT_AVAILABLE: gone"),
        (ZeroDivisionError("ours"), "handler-failed", "ZeroDivisionError('ours')"),
    ],
)
async def test_a_request_that_turns_out_bad_later_is_refused(
    node: ControllerInMemory, error: Exception, kind: str, text: str
) -> None:
    dispatch, peer = dispatcher(node, find_coordinator(lambda: fails(error))), SocketPeer()
    assert await finished(dispatch.handle(FIND, peer)) is None
    ((found_kind, found_text),) = peer.refusals
    assert found_kind == kind
    assert text in found_text
    assert list(dispatch.collect()) == [RequestCount("FindCoordinator", 1, 1)]
    assert await finished(dispatch.handle(FIND, LocalPeer())) is None, "without a socket there is just no reply"


async def test_our_own_mistakes_are_traced_now_and_then(
    node: ControllerInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    dispatch = dispatcher(node, find_coordinator(lambda: fails(ZeroDivisionError())))
    for _ in range(3):
        await finished(dispatch.handle(FIND, SocketPeer()))
    traced = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in traced] == [
        "the handler of FindCoordinator failed, its connection is closed"
    ]
    assert traced[0].exc_info is not None
    node.clock.advance(10)
    await finished(dispatch.handle(FIND, SocketPeer()))
    assert len(caplog.records) == 2


async def test_what_a_client_that_has_gone_asked_is_given_up(node: ControllerInMemory) -> None:
    begun, given_up = asyncio.Event(), asyncio.Event()

    async def handle() -> Fields:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return ANSWER

    dispatch, peer = dispatcher(node, find_coordinator(handle)), SocketPeer()
    pending = dispatch.handle(FIND, peer)
    await begun.wait()
    assert isinstance(pending, PendingReply)
    pending.cancel()
    await given_up.wait()
    await dispatch.close()
    assert peer.refusals == []


async def test_a_bad_request_is_not_forwarded(node: ControllerInMemory) -> None:
    controller = Controller()
    dispatch = dispatcher(node, DELETE_API, controller)
    assert await finished(dispatch.handle(DELETE, SocketPeer())) is not None
    assert len(controller.bodies) == 1
    with pytest.raises(ProtocolError) as refused:
        dispatch.handle(DELETE[:-3], SocketPeer())
    assert refused.value.kind == "truncated"
    assert len(controller.bodies) == 1
    assert list(dispatch.collect()) == [RequestCount("DeleteTopics", 2, 1)]


async def test_a_controller_that_cannot_be_reached_ends_the_connection(node: ControllerInMemory) -> None:
    controller = Controller(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no controller"))
    peer = SocketPeer()
    assert await finished(dispatcher(node, DELETE_API, controller).handle(DELETE, peer)) is None
    assert peer.refusals == [("not-answered", "DeleteTopics: BROKER_NOT_AVAILABLE: no controller")]


async def test_what_is_not_served_is_refused(node: ControllerInMemory) -> None:
    dispatch = dispatcher(node, DELETE_API)
    with pytest.raises(ProtocolError, match="API key 10 is not served"):
        dispatch.handle(FIND, LocalPeer())
    with pytest.raises(ProtocolError, match="DeleteTopics v0 is not served \\(1 to 6\\)"):
        dispatch.handle(memoryview(struct.pack(">hhih", DELETE_TOPICS, 0, 1, -1)), LocalPeer())
    with pytest.raises(ProtocolError, match="API key 18"):
        dispatch.handle(memoryview(struct.pack(">hhih", API_VERSIONS, 0, 1, -1)), LocalPeer())
    assert list(dispatch.collect()) == [RequestCount("DeleteTopics", 1, 1)]


async def test_what_waits_for_name_servers_goes_by_a_link_of_its_own(node: ControllerInMemory) -> None:
    common, own = Controller(), Controller()
    dispatch = Dispatcher(cast("Any", node), [alter_client_quotas.API], common, own)
    for name in ("10.0.0.1", "shop.example"):
        entity = [{"entity_type": "ip", "entity_name": name}]
        content = {"entries": [{"entity": entity, "ops": []}], "validate_only": False}
        frame = memoryview(encode_request(ALTER_CLIENT_QUOTAS, 1, 7, content))[4:]
        assert await finished(dispatch.handle(frame, SocketPeer())) is not None
    assert [b"10.0.0.1" in body for body in common.bodies] == [True]
    assert [b"shop.example" in body for body in own.bodies] == [True]
