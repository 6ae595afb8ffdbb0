"""From a frame to its reply: header, version check, the one table, the gate, the handler, the completion.

One dispatcher serves one kind of listener (clients', or the controller's). A request that cannot be served ends its
connection, as in Kafka: by ProtocolError, or by a refusal when its handler has returned before. An API or a version
that is not served may get an empty response instead (`unsupported.request.reply`, decision 36).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from broker_runtime.apis.call import Call, Completion, RequestObserver
from broker_runtime.apis.context import ApiSpec, Gate, NodeContext
from broker_runtime.apis.on_demand import ApiOnDemand, FirstRequests
from broker_runtime.errors import KafkaError, ProtocolError
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix, read_header
from broker_runtime.wire.messages import Fields, decode_request, encode_response
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.varint import skip_tagged_fields

log = logging.getLogger(__name__)

_TRACE_INTERVAL_S = 10.0

C = TypeVar("C", bound=NodeContext)


class Dispatcher(Generic[C]):
    """Owns the tasks of handlers that wait.

    `observer` is told of the end of each call, see `Completion`; `gate` is asked before each is handled;
    `replies_empty` says whether what is not served gets an empty response instead of ending its connection.
    """

    def __init__(
        self,
        context: C,
        served: Iterable[ApiSpec[C]],
        observer: Callable[[Call], None] | None = None,
        gate: Gate | None = None,
        replies_empty: Callable[[], bool] = lambda: False,
        first_requests: FirstRequests | None = None,
    ) -> None:
        """`first_requests` lets requests wait for the import of an API; without it they are served after it."""
        self._context = context
        self._gate = gate
        self._replies_empty = replies_empty
        apis: dict[int, Any] = {api.key: api for api in served}
        self._on_demand = {key: api for key, api in apis.items() if isinstance(api, ApiOnDemand)}
        """APIs that nobody has asked for yet."""
        self._served: dict[int, ApiSpec[C]] = {key: api for key, api in apis.items() if key not in self._on_demand}
        self._first_requests = first_requests
        self.completion = Completion(context.clock.monotonic, observer)
        """Where its calls end, and those of other protocols on the same listeners."""
        self._tasks: set[asyncio.Task[Reply]] = set()
        self._traced_s: dict[int, float] = {}

    def observe(self, requests: RequestObserver | None) -> None:
        """Tell `requests` of every request from here on, or nobody."""
        self.completion.observe(requests)

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """`frame` excludes its size field and is valid only during the call. Raises ProtocolError, see there."""
        key, version, correlation_id, client_id, body = read_header(frame)
        api = self._served.get(key)
        if api is None and key in self._on_demand:
            return self._handle_first(self._on_demand[key], frame, connection)
        if api is None:
            text = f"API key {key} is not served on this listener"
            return self._unsupported("unknown-api", text, correlation_id, connection)
        completion = self.completion
        # An attribute that is called where it is named is looked for as a method first, in every request.
        now, carry_out = completion.now, api.handle
        call = Call(api, version, correlation_id, client_id, connection, completion)
        call.request_bytes = len(frame)
        call.received_s = now()
        low, high = api.versions
        if not low <= version <= high and not api.any_version:
            call.refused("unsupported-version")
            text = f"{api.name} v{version} is not served ({low} to {high})"
            return self._unsupported("unsupported-version", text, correlation_id, connection)
        try:
            if call.flexible:
                body = skip_tagged_fields(frame, body)
            if api.reads == "frame":
                call.request = request = RequestReader(frame, body, call.flexible)
            else:
                call.request = request = decode_request(key, version, frame[body:])
            if completion.requests is not None:
                completion.requests.begun(call, frame, body)
            answer = None if self._gate is None else self._gate(call)
            if answer is None:
                answer = carry_out(request, call, self._context)
            if isinstance(answer, tuple):
                reply: Reply = answer
            elif isinstance(answer, Mapping):
                reply = _encoded(call, answer)
            else:
                return self._later(call, answer)
        except ProtocolError as error:
            call.refused(error.kind)
            raise
        except Exception:
            call.refused("handler-failed")
            raise
        call.answered(reply)
        return reply

    def _handle_first(
        self, wanted: ApiOnDemand, frame: memoryview, connection: ServedConnection
    ) -> Reply | PendingReply:
        def serve(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
            self._served[wanted.key] = wanted.spec()
            return self.handle(frame, connection)

        if self._first_requests is None:
            return serve(frame, connection)
        return self._first_requests.handle(wanted.module, serve, frame, connection)

    def _unsupported(self, kind: str, text: str, correlation_id: int, connection: ServedConnection) -> Reply:
        """A response of nothing but its correlation id (KIP-35 as drafted); ProtocolError where that is not wanted.

        Nothing behind the header was read: whether the client waits for a response is not known either.
        """
        if not self._replies_empty():
            raise ProtocolError(kind, text)
        connection.refuse(kind, text, ends=False)
        return (prefix(correlation_id, 0, flexible=False),)

    def _later(self, call: Call, answer: PendingReply | Awaitable[Fields | Reply]) -> PendingReply:
        """Whatever is awaited is run as a task; the connection is muted meanwhile: one task for each, at most."""
        call.handled_s = self.completion.now()
        if isinstance(call.request, RequestReader):
            # What it reads is valid during `handle` only.
            call.request = None
        if isinstance(answer, PendingReply):
            return answer
        task = asyncio.ensure_future(_finish(call, answer))
        self._tasks.add(task)
        call.later(partial(_cancel, task))
        task.add_done_callback(partial(self._finished, call))
        return call

    def _finished(self, call: Call, task: asyncio.Task[Reply]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            call.give_up()
            return
        error, name = task.exception(), call.api.name
        if error is None:
            call.complete(task.result())
        elif isinstance(error, ProtocolError):
            call.refuse(error.kind, str(error))
        elif isinstance(error, KafkaError):
            call.refuse("not-answered", f"{name}: {error}")
        else:
            self._trace(call, error)
            call.refuse("handler-failed", f"{name}: {error!r}")

    def _trace(self, call: Call, error: BaseException) -> None:
        """A mistake of ours is shown with where it happened, but not for each request that meets it."""
        now_s, key = self.completion.now(), call.api.key
        if now_s - self._traced_s.get(key, -_TRACE_INTERVAL_S) >= _TRACE_INTERVAL_S:
            self._traced_s[key] = now_s
            log.error("the handler of %s failed, its connection is closed", call.api.name, exc_info=error)

    async def close(self) -> None:
        """Cancel what is still being answered."""
        # As in `_cancel`.
        await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _finish(call: Call, answer: Awaitable[Fields | Reply]) -> Reply:
    done = await answer
    return _encoded(call, done) if isinstance(done, Mapping) else done


def _encoded(call: Call, fields: Fields) -> Reply:
    if call.throttle_ms:
        fields = {**fields, "throttle_time": call.throttle_ms}
    call.fields = fields
    return (encode_response(call.api.key, call.version, call.correlation_id, fields),)


def _cancel(task: asyncio.Task[Reply]) -> None:
    # Not before it has begun: what it was to await would never be awaited.
    task.get_loop().call_soon(task.cancel)
