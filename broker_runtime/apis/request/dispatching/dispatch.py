"""Turns a frame into its reply: header, version check, API table, gate, handler, completion.

One dispatcher serves one kind of listener (the clients' or the controller's). A request that cannot be served ends its
connection, as in Kafka: by ProtocolError, or by a refusal if its handler has already returned. An API or version that
is not served may get an empty response instead (`unsupported.request.reply`, decision 36).

A handler's answer and the work that leads to it have five forms (`context.Handled`). Work may return any of them.

- A packed reply, the form of Produce and Fetch: a tuple needs neither an encoder nor a generator. `handle` ends the
  call at once.
- Fields, the form of most handlers: `answering.settled` packs them in one place for all, in steps if they are many.
- The call itself, for a long poll or replicas: what it waits for completes it (`call.Call.complete`), without a task.
- Steps, for work that grows with the request: few of them run at once, without a task. They can await nothing.
- An awaitable, for work that waits for another process: it runs as a task.

`pending_calls.PendingCalls` gets all but the first, and ends their calls.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from broker_runtime.apis.request.call import Call, Completion, RequestObserver
from broker_runtime.apis.request.context import ApiSpec, Gate, Handled, NodeContext, ReadRequest
from broker_runtime.apis.request.dispatching.answering import Settled, refused, settled
from broker_runtime.apis.request.dispatching.on_demand import ApiOnDemand, FirstRequests
from broker_runtime.apis.request.dispatching.pending_calls import PendingCalls
from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.reader import CountingReader, RequestReader
from broker_runtime.wire.encoding.varint import skip_tagged_fields
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix, read_header
from broker_runtime.wire.limits import DEFAULT_LIMITS, SMALL_BYTES, ItemBudget, RequestLimits, RequestTooLargeError
from broker_runtime.wire.messages import check_size, decode_request, decode_request_in_steps
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import PRODUCE

LongRequests = tuple[Slices, RequestLimits]
"""The slices in which long requests run, and the limits of a request."""

C = TypeVar("C", bound=NodeContext)


class Dispatcher(Generic[C]):
    """Dispatches the requests of one kind of listener, and owns its pending calls.

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
        """Checks each following call before its handler runs."""
        self._replies_empty = replies_empty
        apis: dict[int, Any] = {api.key: api for api in served}
        self._on_demand = {key: api for key, api in apis.items() if isinstance(api, ApiOnDemand)}
        """APIs without a request so far, which are not imported yet."""
        self._served: dict[int, ApiSpec[C]] = {key: api for key, api in apis.items() if key not in self._on_demand}
        self._first_requests = first_requests
        slices, self._limits = long_requests or (None, DEFAULT_LIMITS)
        self.completion = Completion(context.clock.monotonic, observer, slices, self._limits)
        """The completion of its calls and of the calls of other protocols on the same listeners."""
        self._pending = PendingCalls(self.completion)

    def observe(self, requests: RequestObserver | None) -> None:
        """Notify `requests` of every request from now on; None ends the notifications."""
        self.completion.observe(requests)

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        """Return the reply to a frame, which excludes its size field and is valid only during this call.

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
            call.record_refusal("unsupported-version")
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
                return self._pending.run(call, self._long(call, api, frame, body), len(frame))
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
                size = 0 if key == PRODUCE else len(frame)
                pending = self._pending
                return pending.wait(call) if answer is call else pending.run(call, settled(call, answer), size)
        except Exception as error:
            answer = self._refused(call, error)
            if answer is None:
                raise
            return answer
        call.record_answer(answer)
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

    def _refused(self, call: Call, error: Exception) -> Reply | None:
        """Return the answer to a request that exceeds the limits. None if another error ends the connection.

        Raises ProtocolError if no answer can carry the error.
        """
        if not isinstance(error, RequestTooLargeError):
            call.record_refusal(error.kind if isinstance(error, ProtocolError) else "handler-failed")
            return None
        text = f"{call.api.name} v{call.version}: {error}"
        # No answer has the form of an unknown version of ApiVersions.
        reply = refused(call, text) if call.version <= call.api.versions[1] else None
        if reply is None:
            call.record_refusal(error.kind)
            raise ProtocolError(error.kind, text)
        call.connection.refuse(error.kind, text, ends=False)
        call.record_answer(reply)
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

    async def close(self) -> None:
        """Cancel all pending calls."""
        await self._pending.close()
