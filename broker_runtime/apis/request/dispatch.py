"""Turns a frame into its reply: header, version check, API table, gate, handler, completion.

One dispatcher serves one kind of listener (the clients' or the controller's). A request that cannot be served ends its
connection, as in Kafka: by ProtocolError, or by a refusal if its handler has already returned. An API or version that
is not served may get an empty response instead (`unsupported.request.reply`, decision 36).

What a handler may return, and which method ends the call:

- a packed reply: `handle` ends the call at once;
- fields: `settled` encodes them, in steps if they are many; `_run` runs the steps now, or in slices until `_sliced`;
- steps: the same, and what they return is treated like the handler's result;
- an awaitable: `_wait` runs it as a task, and `_finished` ends the call;
- the call itself, or another PendingReply: the handler completes it later (`call.Call.complete`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import is_dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from broker_runtime.apis.request.answering import Settled, refused, settled
from broker_runtime.apis.request.call import Call, Completion, RequestObserver
from broker_runtime.apis.request.context import ApiSpec, Gate, Handled, NodeContext, ReadRequest
from broker_runtime.apis.request.on_demand import ApiOnDemand, FirstRequests
from broker_runtime.errors import KafkaError, ProtocolError
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.decode import released
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix, read_header
from broker_runtime.wire.limits import DEFAULT_LIMITS, SMALL_BYTES, ItemBudget, RequestLimits, RequestTooLargeError
from broker_runtime.wire.messages import check_size, decode_request, decode_request_in_steps
from broker_runtime.wire.reader import CountingReader, RequestReader
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.varint import skip_tagged_fields
from broker_runtime.wire.versions import JOIN_GROUP, PRODUCE, SYNC_GROUP

log = logging.getLogger(__name__)

LongRequests = tuple[Slices, RequestLimits]
"""The queue in which long requests run, and the limits of a request."""

_TRACE_INTERVAL_S = 10.0
_WAIT_FOR_OTHERS = (JOIN_GROUP, SYNC_GROUP)
"""APIs whose coroutines wait for other clients, and therefore must not hold room meanwhile."""

C = TypeVar("C", bound=NodeContext)


class Dispatcher(Generic[C]):
    """Dispatches the requests of one kind of listener, and owns the tasks of pending handlers.

    `observer` is notified of the end of each call, see `Completion`; `gate` checks each call before its handler.
    `replies_empty` returns whether an API that is not served gets an empty response instead of ending the connection.
    Requests that exceed the limits of `long_requests` are refused. Long requests run in its slices.
    """

    def __init__(
        self,
        context: C,
        served: Iterable[ApiSpec[C]],
        observer: Callable[[Call], None] | None = None,
        gate: Gate | None = None,
        replies_empty: Callable[[], bool] = lambda: False,
        first_requests: FirstRequests | None = None,
        long_requests: LongRequests | None = None,
    ) -> None:
        """`first_requests` lets requests wait for an API's import; without it, the import blocks the event loop."""
        self._context = context
        self.gate = gate
        """Checks the following calls; see `Gate`."""
        self._replies_empty = replies_empty
        apis: dict[int, Any] = {api.key: api for api in served}
        self._on_demand = {key: api for key, api in apis.items() if isinstance(api, ApiOnDemand)}
        """APIs without a request so far, which are not imported yet."""
        self._served: dict[int, ApiSpec[C]] = {key: api for key, api in apis.items() if key not in self._on_demand}
        self._first_requests = first_requests
        slices, self._limits = long_requests or (None, DEFAULT_LIMITS)
        self.completion = Completion(context.clock.monotonic, observer, slices, self._limits)
        """The completion of its calls and of the calls of other protocols on the same listeners."""
        self._work: set[asyncio.Future[Any]] = set()
        """Tasks of pending handlers, and results of work that runs in slices."""
        self._traced_s: dict[int, float] = {}

    def observe(self, requests: RequestObserver | None) -> None:
        """Notify `requests` of every request from now on; None ends this."""
        self.completion.observe(requests)

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Return the reply to a frame. The frame excludes its size field and is valid only during this call.

        Raises ProtocolError, which ends the connection.
        """
        key, version, correlation_id, client_id, body = read_header(frame)
        api = self._served.get(key)
        if api is None:
            return self._not_served_yet(key, correlation_id, frame, connection)
        completion = self.completion
        # Local names are faster: for a direct call of an attribute, Python first searches for a method of that name.
        now, carry_out = completion.now, api.handle
        call = Call(api, version, correlation_id, client_id, connection, completion)
        call.request_bytes = len(frame)
        call.received_s = now()
        low, high = api.versions
        if not low <= version <= high and not api.any_version:
            call.refused("unsupported-version")
            text = f"{api.name} v{version} is not served ({low} to {high})"
            return self._unsupported("unsupported-version", text, correlation_id, connection)
        limits = self._limits
        try:
            if call.flexible:
                body = skip_tagged_fields(frame, body, limits)
            request: Any
            if api.reads == "frame":
                call.request = request = (
                    RequestReader(frame, body, call.flexible, limits)
                    if api.counts_itself or len(frame) - body <= SMALL_BYTES
                    else CountingReader(frame, body, call.flexible, ItemBudget(limits, key))
                )
            elif len(frame) - body > SMALL_BYTES:
                return self._run(call, self._long(call, api, frame, body), len(frame))
            else:
                call.request = request = decode_request(key, version, frame[body:])
            if completion.requests is not None:
                completion.requests.begun(call, frame, body)
            answer: Handled | None = None if self.gate is None else self.gate(call)
            if answer is None:
                if api.reads == "entity and body":
                    request = ReadRequest(request, bytes(frame[body:]))
                answer = carry_out(request, call, self._context)
            if not isinstance(answer, tuple):
                return self._run(call, settled(call, answer), 0 if key == PRODUCE else len(frame))
        except Exception as error:
            answer = self._refused(call, error)
            if answer is None:
                raise
            return answer
        call.answered(answer)
        return answer

    def _long(self, call: Call, api: ApiSpec[C], frame: memoryview, body_at: int) -> Steps[Settled]:
        """Read, handle and answer a long request. Raises RequestTooLargeError."""
        check_size(api.name, len(frame) - body_at, self._limits)
        body = call.connection.keep_frame(frame)[body_at:]
        if self.completion.requests is not None:
            self.completion.requests.begun(call, frame, body_at)
        return self._carried_out(call, api, body)

    def _carried_out(self, call: Call, api: ApiSpec[C], body: memoryview) -> Steps[Settled]:
        call.request = request = yield from decode_request_in_steps(api.key, call.version, body, self._limits)
        if hasattr(call, "notes"):
            yield from call.notes.read(api.key, request)
        answer: Handled | None = None if self.gate is None else self.gate(call)
        if answer is None:
            read = ReadRequest(request, bytes(body)) if api.reads == "entity and body" else request
            answer = api.handle(read, call, self._context)
        return (yield from settled(call, answer))

    def _run(self, call: Call, steps: Steps[Settled], size: int = 0) -> Reply | PendingReply:
        """Run the steps of a call at once if they are few, otherwise in slices.

        `size` is the number of request bytes that become objects of many times their size: if there are more than
        SMALL_BYTES, what has not ended at once waits for room. Raises what the first steps raise.
        """
        room = size if size > SMALL_BYTES else 0
        slices = self.completion.slices
        done, answer = slices.begin(steps)
        if done:
            if isinstance(answer, tuple):
                call.answered(answer)
                return answer
            assert answer is not None
            reads_itself = self._served[call.api.key].reads == "frame" and call.api.key not in _WAIT_FOR_OTHERS
            return self._later(call, answer, room if reads_itself else 0)
        self._note_pending(call)
        spent = None if self.completion.quotas is None else call.spent
        result = slices.add(steps, room, spent)
        self._work.add(result)
        call.later(None if self._served[call.api.key].outlives_client else partial(_drop, result))
        result.add_done_callback(partial(self._sliced, call))
        return call

    def _sliced(self, call: Call, result: "asyncio.Future[Settled]") -> None:
        """Complete the call when its steps have ended."""
        self._work.discard(result)
        if result.cancelled():
            call.give_up()
        elif (error := result.exception()) is not None:
            self._failed(call, error)
        elif isinstance(answer := result.result(), tuple):
            self._complete(call, answer)
        elif call.done:
            _close(answer)
        else:
            assert not isinstance(answer, PendingReply) or answer is call
            self._wait(call, answer)

    def _refused(self, call: Call, error: Exception) -> Reply | None:
        """Return the answer to a request that exceeds the limits. None if another error ends the connection.

        Raises ProtocolError if no answer can carry the error.
        """
        if not isinstance(error, RequestTooLargeError):
            call.refused(error.kind if isinstance(error, ProtocolError) else "handler-failed")
            return None
        text = f"{call.api.name} v{call.version}: {error}"
        # No answer has the form of an unknown version of ApiVersions.
        reply = refused(call, text) if call.version <= call.api.versions[1] else None
        if reply is None:
            call.refused(error.kind)
            raise ProtocolError(error.kind, text)
        call.connection.refuse(error.kind, text, ends=False)
        call.answered(reply)
        return reply

    def _not_served_yet(
        self, key: int, correlation_id: int, frame: memoryview, connection: ServedConnection
    ) -> Reply | PendingReply:
        """Return the reply for an API that is imported on demand, or that does not exist."""
        wanted = self._on_demand.get(key)
        if wanted is None:
            text = f"API key {key} is not served on this listener"
            return self._unsupported("unknown-api", text, correlation_id, connection)

        def serve(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
            self._served[key] = wanted.spec()
            return self.handle(frame, connection)

        if self._first_requests is None:
            return serve(frame, connection)
        return self._first_requests.handle(wanted.module, serve, frame, connection)

    def _unsupported(self, kind: str, text: str, correlation_id: int, connection: ServedConnection) -> Reply:
        """Return a response with only its correlation id (first draft of KIP-35).

        Raises ProtocolError if not configured.

        Only the header has been read, so it is not known whether the client waits for a response.
        """
        if not self._replies_empty():
            raise ProtocolError(kind, text)
        connection.refuse(kind, text, ends=False)
        return (prefix(correlation_id, 0, flexible=False),)

    def _note_pending(self, call: Call) -> None:
        """Note that the handler has returned without an answer."""
        call.handled_s = self.completion.now()
        if isinstance(call.request, RequestReader):
            # The reader's frame is valid only during `handle`.
            call.request = None

    def _later(self, call: Call, answer: PendingReply | Awaitable[Any], size: int) -> PendingReply:
        self._note_pending(call)
        return self._wait(call, answer, size)

    def _wait(self, call: Call, answer: PendingReply | Awaitable[Any], size: int = 0) -> PendingReply:
        """Run an awaitable as a task, when there is room for `size` bytes.

        Each connection has at most one task, because it is muted until the task ends.
        """
        if isinstance(answer, PendingReply):
            return answer
        task = asyncio.ensure_future(self._finish(call, answer, size))
        self._work.add(task)
        call.later(partial(_cancel, task))
        task.add_done_callback(partial(self._finished, call))
        return call

    async def _finish(self, call: Call, answer: Awaitable[Any], size: int) -> Reply:
        slices = self.completion.slices
        try:
            async with slices.room(size):
                done = await answer
                while not isinstance(done, tuple):
                    done = await slices.finish(settled(call, done))
                return done
        finally:
            if isinstance(answer, Coroutine):
                # Without an effect, unless it was cancelled while it waited for room.
                answer.close()

    def _finished(self, call: Call, task: "asyncio.Future[Reply]") -> None:
        self._work.discard(task)
        if task.cancelled():
            call.give_up()
        elif (error := task.exception()) is not None:
            self._failed(call, error)
        else:
            self._complete(call, task.result())

    def _complete(self, call: Call, reply: Reply) -> None:
        call.complete(reply)
        if call.request_bytes > SMALL_BYTES and is_dataclass(call.request):
            request, call.request = call.request, None
            self.completion.slices.do(released(request))

    def _failed(self, call: Call, error: BaseException) -> None:
        name = call.api.name
        if isinstance(error, RequestTooLargeError):
            self._refuse_too_large(call, error)
        elif isinstance(error, ProtocolError):
            call.refuse(error.kind, str(error))
        elif isinstance(error, KafkaError):
            call.refuse("not-answered", f"{name}: {error}")
        else:
            self._trace(call, error)
            call.refuse("handler-failed", f"{name}: {error!r}")

    def _refuse_too_large(self, call: Call, error: RequestTooLargeError) -> None:
        """Refuse a pending call whose request exceeds the limits."""
        if call.done:
            return
        text = f"{call.api.name} v{call.version}: {error}"
        reply = refused(call, text)
        if reply is None:
            call.refuse(error.kind, text)
        else:
            call.connection.refuse(error.kind, text, ends=False)
            call.complete(reply)

    def _trace(self, call: Call, error: BaseException) -> None:
        """Log a bug in a handler with its traceback, but at most once per interval for each API."""
        now_s, key = self.completion.now(), call.api.key
        if now_s - self._traced_s.get(key, -_TRACE_INTERVAL_S) >= _TRACE_INTERVAL_S:
            self._traced_s[key] = now_s
            log.error("the handler of %s failed; the connection is closed", call.api.name, exc_info=error)

    async def close(self) -> None:
        """Cancel all pending calls."""
        # As in `_cancel`.
        await asyncio.sleep(0)
        for each in self._work:
            each.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)


def _close(answer: PendingReply | Awaitable[Any]) -> None:
    """Close an answer whose client has disconnected."""
    if isinstance(answer, Coroutine):
        answer.close()
    elif isinstance(answer, asyncio.Future):
        answer.cancel()


def _drop(work: "asyncio.Future[Settled]") -> None:
    work.cancel()


def _cancel(task: "asyncio.Task[Reply]") -> None:
    # Cancel only after the task has started. Otherwise its coroutine would never be awaited.
    task.get_loop().call_soon(task.cancel)
