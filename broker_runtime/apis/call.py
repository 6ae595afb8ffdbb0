"""One request, from its header to its end.

A `Call` is made when the header of a request has been read, and ends exactly once: it is answered, its connection is
refused or hung up on, or it is cancelled because nobody waits for its answer any more. Every one of these ends passes
`Completion.ended`, the only place where somebody who wants to know of requests has to listen. What there is to know is
in the call and in `observed`. Where nobody listens, that costs one comparison.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix
from broker_runtime.wire.reply import PendingReply, Reply


class ClientSoftware(NamedTuple):
    """The name and version of a client library, as ApiVersions tells them from version 3 on (KIP-511)."""

    name: str
    version: str


class Api(Protocol):
    """What is asked for, see `context.ApiSpec`."""

    @property
    def key(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def flexible_from(self) -> int: ...


class Ending(Enum):
    """How a call has ended; the values are for people."""

    ANSWERED = "answered"
    """By a response, which may carry error codes, or by none where none is wanted (Produce with acks=0)."""
    REFUSED = "refused"
    """The connection ends for this request, which is counted by its `refusal`."""
    HUNG_UP = "hung up"
    """The connection ends because an answer that was under way cannot be given."""
    CANCELLED = "cancelled"
    """Nobody waits for the answer any more: the client has gone, or the broker stops."""


_ANSWERED, _REFUSED, _HUNG_UP, _CANCELLED = Ending


class Completion:
    """Where all calls of one dispatcher end.

    `observer` is called once for each, before the client has the answer, and must not raise. `now` is the monotonic
    clock in seconds.
    """

    __slots__ = ("now", "observer")

    def __init__(self, now: Callable[[], float], observer: "Callable[[Call], None] | None" = None) -> None:
        self.now = now
        self.observer = observer

    def ended(self, call: "Call", ending: Ending) -> None:
        observer = self.observer
        if observer is not None:
            call.ending = ending
            call.completed_s = self.now()
            observer(call)


class Call(PendingReply):
    """A request that is being carried out. Nothing of it is durable, nor outlives its answer.

    A handler that cannot answer at once returns `later(...)` and completes the call when it can; the connection is
    muted until then. `received_s`, `handled_s` (when the handler returned without an answer) and `completed_s` are
    seconds of the monotonic clock, and like `ending` are only there for an observer.
    """

    __slots__ = (
        "_completion",
        "api",
        "client_id",
        "completed_s",
        "connection",
        "correlation_id",
        "ending",
        "error",
        "fields",
        "flexible",
        "handled_s",
        "received_s",
        "refusal",
        "reply",
        "request",
        "request_bytes",
        "throttle_ms",
        "version",
    )

    ending: Ending
    received_s: float
    handled_s: float
    completed_s: float
    refusal: str
    """Of a call that ended by a refusal: what it is counted as."""

    def __init__(
        self,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
        connection: ServedConnection,
        completion: Completion,
    ) -> None:
        self.api = api
        self.version = version
        self.flexible = version >= api.flexible_from
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self._completion = completion
        self.done = False
        self.request: Any = None
        """kio's entity of this version, or a RequestReader where the handler reads the request itself."""
        self.request_bytes = 0
        """With the header, without the size field."""
        self.error = 0
        """An error code in an answer that a handler has packed itself: the last one."""
        self.fields: Mapping[str, object] | None = None
        self.reply: Reply = ()
        self.throttle_ms = 0

    @property
    def listener(self) -> str:
        return self.connection.listener

    def packed(self, body: bytes) -> Reply:
        """The response of this body."""
        return (prefix(self.correlation_id, len(body), self.flexible) + body,)

    def later(self, on_cancel: Callable[[], None] | None = None) -> "Call":
        """To be returned by a handler that will complete the call; `on_cancel` runs when nobody waits any more."""
        PendingReply.__init__(self, on_cancel)
        return self

    def throttle(self, delay_ms: int) -> None:
        """The client is over a quota: its answer goes at once and says so, then it is left alone so long (KIP-219).

        To be called before the answer is made. One that was encoded elsewhere or earlier (the controller's that is
        passed on, Metadata of all topics, ApiVersions) does not say it; the client is left alone all the same.
        """
        self.throttle_ms = max(delay_ms, self.throttle_ms)
        self.connection.throttle_s = self.throttle_ms / 1000

    def answered(self, reply: Reply) -> None:
        """The handler has answered at once."""
        self.done = True
        self.reply = reply
        self._completion.ended(self, _ANSWERED)

    def refused(self, kind: str) -> None:
        """The connection ends already, by the exception that the handler has raised."""
        if not self.done:
            self.done = True
            self.refusal = kind
            self._completion.ended(self, _REFUSED)

    def complete(self, reply: Reply | None) -> None:
        """Deliver the reply that came later; None hangs up."""
        if self.done:
            return
        self.done = True
        if reply is not None:
            self.reply = reply
        self._completion.ended(self, _HUNG_UP if reply is None else _ANSWERED)
        self._deliver(reply)

    def refuse(self, kind: str, text: str) -> None:
        """End the connection for a request that turns out bad, or cannot be answered, after its handler returned."""
        if self.done:
            return
        self.refused(kind)
        self.connection.refuse(kind, text)
        self._deliver(None)

    def cancel(self) -> None:
        """The client has gone."""
        if not self.done:
            self._completion.ended(self, _CANCELLED)
            super().cancel()

    def give_up(self) -> None:
        """Who was to answer has been stopped."""
        if not self.done:
            self.done = True
            self._completion.ended(self, _CANCELLED)
            self._deliver(None)
