"""Requests for handlers without a dispatcher, and a connection that only records what is done to it."""

import asyncio
from collections.abc import Awaitable
from types import GeneratorType
from typing import Any

from broker_runtime.apis.request.access import Authorization
from broker_runtime.apis.request.call import Call, Completion
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.answering import settled
from broker_runtime.network.sockets.closed_observers import ClosedObservers
from broker_runtime.security.principal import ANONYMOUS
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.varint import skip_tagged_fields
from broker_runtime.wire.header import read_header
from broker_runtime.wire.reply import PendingReply, Reply


class NotedConnection:
    """A served connection that records refusals and pushed frames."""

    id = 1
    listener = "PLAINTEXT"

    def __init__(self, port: int = 50_000) -> None:
        self.peer = ("127.0.0.1", port)
        self.state: object = None
        self.principal = ANONYMOUS
        self.throttle_s = 0.0
        self.heavy_s = 0.0
        self.refusals: list[tuple[str, str]] = []
        self.noted: list[tuple[str, str]] = []
        """Refusals after which the connection continues."""
        self.pushed: list[bytes] = []
        self.copied_bytes = 0
        """Bytes of the request that count as memory of requests, because the handler has copied them."""
        self.has_unread = False
        self.closed = ClosedObservers(10)

    def refuse(self, kind: str, text: str, *, ends: bool = True) -> None:
        (self.refusals if ends else self.noted).append((kind, text))

    def keep_frame(self, frame: memoryview) -> memoryview:
        return memoryview(bytes(frame))

    def release_frame(self, copied_bytes: int = 0) -> None:
        self.copied_bytes = copied_bytes

    def push(self, frame: bytes) -> bool:
        self.pushed.append(frame)
        return True

    def end(self) -> None:
        for observer in self.closed.taken():
            observer()


def a_call(api: ApiSpec[Any], version: int, authorization: Authorization | None = None) -> Call:
    completion = Completion(lambda: 0.0)
    completion.authorization = authorization
    return Call(api, version, 1, "test", NotedConnection(), completion)


def settled_at_once(call: Call, answer: Any) -> Reply | PendingReply | Awaitable[Any]:
    """The packed result of a handler, after all its steps."""
    return at_once(settled(call, answer))


async def reply_to(call: Call, answer: Any) -> Reply | None:
    """The reply made from a handler's result; None if the connection is closed instead."""
    while not isinstance(answer, tuple):
        if isinstance(answer, PendingReply):
            given: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
            answer.on_complete(given.set_result)
            return await given
        answer = await call.completion.slices.finish(settled(call, answer))
        if isinstance(answer, Awaitable):
            answer = await answer
    return answer


def fields_of(answer: Any) -> Any:
    """The result of a handler after all its steps; it may still have to be awaited."""
    return at_once(answer) if isinstance(answer, GeneratorType) else answer


async def fields_later(answer: Any) -> Any:
    """Return the fields of a handler's answer, awaited and computed in time slices."""
    slices = Slices(lambda: 0.0)
    while isinstance(answer, GeneratorType | Awaitable):
        answer = await (slices.finish(answer) if isinstance(answer, GeneratorType) else answer)
    return answer


def handled(api: ApiSpec[Any], frame: memoryview, context: Any, port: int = 50_000) -> Reply | PendingReply:
    """The result of the handler of an API that reads its requests itself; `port` is the client's."""
    return handled_call(api, frame, context, port)[1]


def handled_call(
    api: ApiSpec[Any], frame: memoryview, context: Any, port: int = 50_000, *, details: bool = False
) -> tuple[Call, Reply | PendingReply]:
    """Handle the request, and return the answer and its call. The call has kept its details if `details` is set."""
    _, version, correlation_id, client_id, body = read_header(frame)
    call = Call(api, version, correlation_id, client_id, NotedConnection(port), Completion(lambda: 0.0))
    if details:
        call.keep_details()
    if call.flexible:
        body = skip_tagged_fields(frame, body)
    answer = settled_at_once(call, api.handle(RequestReader(frame, body, call.flexible), call, context))
    assert isinstance(answer, tuple | PendingReply)
    return call, answer
