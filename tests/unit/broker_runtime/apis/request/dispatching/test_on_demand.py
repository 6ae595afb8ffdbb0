"""The first requests for an API wait until it is imported, and are then served like any other."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import pytest

from broker_runtime.apis.request.dispatching import on_demand
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.request.dispatching.on_demand import ApiOnDemand, FirstRequests
from broker_runtime.errors import ProtocolError
from broker_runtime.on_demand import Importer
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import LIST_GROUPS
from tests.support.fakes.manual_clock import ManualClock
from tests.support.oracles.imports_on_demand import APIS
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

MODULE = "not_imported_yet"


class Gate:
    """An importer whose import ends when a test sets `over`."""

    def __init__(self) -> None:
        self.over: asyncio.Future[ModuleType] = asyncio.get_running_loop().create_future()
        self.wanted: list[str] = []

    async def load(self, name: str) -> ModuleType:
        self.wanted.append(name)
        return await asyncio.shield(self.over)


def first_requests(gate: Gate) -> FirstRequests:
    return FirstRequests(cast("Importer", gate))


def answered(pending: Reply | PendingReply) -> list[Reply | None]:
    assert isinstance(pending, PendingReply)
    replies: list[Reply | None] = []
    pending.on_complete(replies.append)
    return replies


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


Handler = Callable[[memoryview, ServedConnection], Reply | PendingReply]


@pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
def test_the_table_of_apis_agrees_with_each_module(api: ApiOnDemand) -> None:
    spec = import_module(api.module).API
    for what in ("key", "name", "versions", "flexible_from", "reads", "slow", "on_standby"):
        assert getattr(api, what) == getattr(spec, what)


async def test_requests_wait_for_the_import_and_are_answered_then() -> None:
    gate, seen = Gate(), list[bytes]()

    def serve(frame: memoryview, connection: ServedConnection) -> Reply:
        del connection
        seen.append(bytes(frame))
        return (b"answer to ", bytes(frame))

    first = first_requests(gate)
    frame = bytearray(b"one")
    replies = answered(first.handle(MODULE, serve, memoryview(frame), NotedConnection()))
    others = answered(first.handle(MODULE, serve, memoryview(b"two"), NotedConnection()))
    frame[:] = b"***"
    await settled()
    assert (replies, others, seen) == ([], [], []), "the frame is valid during the call only, and was kept"
    gate.over.set_result(asyncio)
    await settled()
    assert replies == [(b"answer to ", b"one")]
    assert others == [(b"answer to ", b"two")]


async def test_a_pending_answer_arrives_after_the_import_and_is_cancelled_with_its_client() -> None:
    gate, given_up = Gate(), list[int]()
    gate.over.set_result(asyncio)
    later = [PendingReply(), PendingReply(lambda: given_up.append(1))]
    first = first_requests(gate)
    waiting = [first.handle(MODULE, lambda *_, one=one: one, memoryview(b"x"), NotedConnection()) for one in later]
    replies = [answered(one) for one in waiting]
    await settled()
    later[0].complete((b"late",))
    cast("PendingReply", waiting[1]).cancel()
    assert (replies, given_up) == ([[(b"late",)], []], [1])


async def test_a_client_that_disconnects_during_the_import_is_not_served() -> None:
    gate, served = Gate(), list[int]()
    first = first_requests(gate)
    waiting = first.handle(MODULE, lambda *_: served.append(1) or (), memoryview(b"x"), NotedConnection())  # type: ignore[func-returns-value]
    await settled()
    cast("PendingReply", waiting).cancel()
    gate.over.set_result(asyncio)
    await settled()
    assert served == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProtocolError("malformed", "no request"), "malformed"),
        (OSError(24, "files"), "not-imported"),
        (KeyError("a mistake of ours"), "handler-failed"),
    ],
)
async def test_an_error_of_the_handler_ends_its_connection(error: Exception, kind: str) -> None:
    gate, connection = Gate(), NotedConnection()

    def serve(frame: memoryview, connection: ServedConnection) -> Reply:
        raise error

    if isinstance(error, OSError):
        gate.over.set_exception(error)
    else:
        gate.over.set_result(asyncio)
    replies = answered(first_requests(gate).handle(MODULE, serve, memoryview(b"x"), connection))
    await settled()
    assert replies == [None]
    assert [refusal[0] for refusal in connection.refusals] == [kind]


async def test_a_large_request_is_not_kept_but_served_at_once() -> None:
    gate = Gate()
    reply = first_requests(gate).handle(
        "json.tool", lambda *_: (b"ok",), memoryview(bytes(2**20 + 1)), NotedConnection()
    )
    assert reply == (b"ok",)
    assert gate.wanted == []


async def test_what_still_waits_at_the_end_is_given_up() -> None:
    gate = Gate()
    first = first_requests(gate)
    replies = answered(first.handle(MODULE, lambda *_: (), memoryview(b"x"), NotedConnection()))
    await first.close()
    gate.over.set_result(asyncio)
    await settled()
    assert replies == []


class Node:
    clock = ManualClock()


async def test_a_dispatcher_serves_the_api_after_the_import_without_any_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, handled = Gate(), list[str]()
    api = next(each for each in APIS if each.key == LIST_GROUPS)

    def handle(reader: Any, call: Any, context: Any) -> Reply:
        handled.append(call.api.name)
        return (b"listed",)

    spec = api.spec()
    changed = type(spec)(spec.key, spec.name, spec.versions, handle, reads="frame")
    monkeypatch.setattr(import_module(api.module), "API", changed)
    monkeypatch.setattr(on_demand, "imported", lambda _: None)
    dispatch: Dispatcher[Any] = Dispatcher(Node(), [cast("Any", api)], first_requests=first_requests(gate))
    frame = memoryview(encode_request(LIST_GROUPS, 0, 7, {}))[4:]
    replies = answered(dispatch.handle(frame, NotedConnection()))
    await settled()
    assert (handled, gate.wanted) == ([], [api.module])
    gate.over.set_result(asyncio)
    await settled()
    assert replies == [(b"listed",)]
    assert dispatch.handle(frame, NotedConnection()) == (b"listed",)
    assert handled == ["ListGroups"] * 2
