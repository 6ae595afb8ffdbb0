"""One request, from its header to its end.

A `Call` is made when the header of a request has been read, and ends exactly once: it is answered, its connection is
refused or hung up on, or it is cancelled because nobody waits for its answer any more. Every one of these ends passes
`Completion.ended`, the only place where somebody who wants to know of requests has to listen. What there is to know is
in the call and in `observed`. Where nobody listens, that costs one comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from broker_runtime.slices import Slices
from broker_runtime.steps import Steps, UnderWay
from broker_runtime.wire.encode import Pieces
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix
from broker_runtime.wire.limits import DEFAULT_LIMITS, RequestLimits
from broker_runtime.wire.reply import PendingReply, Reply


class ClientSoftware(NamedTuple):
    """The name and version of a client library, as ApiVersions tells them from version 3 on (KIP-511)."""

    name: str
    version: str


PartitionFacts = tuple[str, int, int, int, int, int, int, int, int]
"""What a Produce or Fetch did to a partition: topic, partition, bytes, records, base offset, last offset, base and
greatest timestamp in milliseconds, error code; -1 where something is not known or does not apply.

A plain tuple: where somebody listens, one is made for each partition of each such request.
"""

_PARTS_OF_A_STEP = 128
NO_ACKS = -128
"""A Call's `acks` where its API has none."""


class Api(Protocol):
    """What is asked for, see `context.ApiSpec`."""

    @property
    def key(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> tuple[int, int]:
        """The oldest and the newest that is served."""
        ...

    @property
    def flexible_from(self) -> int: ...


class Ending(Enum):
    """How a call has ended; the values are for people."""

    ANSWERED = "answered"
    """By a response, which may carry error codes, or by none where none is wanted (Produce with acks=0)."""
    REFUSED = "refused"
    """The connection ends for this request, which is counted by its `refusal`; or it goes on with an empty response,
    where what was asked is not served and `unsupported.request.reply` says so."""
    HUNG_UP = "hung up"
    """The connection ends because an answer that was under way cannot be given."""
    CANCELLED = "cancelled"
    """Nobody waits for the answer any more: the client has gone, or the broker stops."""


_ANSWERED, _REFUSED, _HUNG_UP, _CANCELLED = Ending


class RequestObserver(Protocol):
    """Is told of each request of a dispatcher, in this order. None of it may take long, or raise, but as it says."""

    def begun(self, call: "Call", frame: memoryview, body_at: int, /) -> None:
        """The handler is about to get the request, whose body begins at `body_at`; `frame` is valid during this call.

        Raises ProtocolError to have the request refused.

        Who wants to know at the end what was done to partitions asks for it now, by `Call.keep_details`.
        """
        ...

    def ended(self, call: "Call", /) -> None:
        """As of `Completion.observer`; also of calls that ended before they could begin."""
        ...


class Completion:
    """Where all calls of one dispatcher end.

    `observer` is called once for each, before the client has the answer, and must not raise. `requests` is told of the
    calls before that, where somebody wants to know. `now` is the monotonic clock in seconds. Calls whose work is long
    do it in `slices`, and none of them names more than `limits` allow.
    """

    __slots__ = ("_counted", "limits", "now", "observer", "requests", "slices")

    def __init__(
        self,
        now: Callable[[], float],
        observer: "Callable[[Call], None] | None" = None,
        slices: Slices | None = None,
        limits: RequestLimits = DEFAULT_LIMITS,
    ) -> None:
        self.now = now
        self.slices = Slices(now) if slices is None else slices
        self.limits = limits
        self.observer = self._counted = observer
        self.requests: RequestObserver | None = None

    def observe(self, requests: RequestObserver | None) -> None:
        """Tell `requests` of every call from here on, beside the observer that there was from the start; or nobody."""
        counted = self._counted
        self.requests = requests
        if requests is None or counted is None:
            self.observer = counted if requests is None else requests.ended
            return
        ended = requests.ended

        def both(call: "Call") -> None:
            counted(call)
            ended(call)

        self.observer = both

    def ended(self, call: "Call", ending: Ending) -> None:
        observer = self.observer
        if observer is not None:
            now = self.now
            call.ending = ending
            call.completed_s = now()
            observer(call)


class _Working(PendingReply):
    """The part of a call that does its work and packs its answer."""

    __slots__ = ()

    correlation_id: int
    flexible: bool
    _completion: Completion

    @property
    def is_observed(self) -> bool:
        """Whether an observer of requests is registered."""
        return self._completion.requests is not None

    @property
    def limits(self) -> RequestLimits:
        """The limits of a request and of its answer."""
        return self._completion.limits

    @property
    def slices(self) -> Slices:
        """The queue of the event loop's long work."""
        return self._completion.slices

    def packed(self, body: bytes) -> Reply:
        """The response of this body."""
        return (prefix(self.correlation_id, len(body), self.flexible) + body,)

    def packed_of(self, pieces: Sequence[bytes]) -> Reply:
        """The response whose body is these pieces: one chunk where it is short."""
        head = prefix(self.correlation_id, sum(map(len, pieces)), self.flexible)
        return (head + pieces[0],) if len(pieces) == 1 else (head, *pieces)

    def joined(self, parts: list[bytes]) -> Steps[Reply]:
        """The response with these parts as its body, joined in steps. The list is empty afterwards."""
        pieces = Pieces()
        parts.reverse()
        while parts:
            some = parts[: -_PARTS_OF_A_STEP - 1 : -1]
            del parts[-_PARTS_OF_A_STEP:]
            pieces.add(b"".join(some))
            yield
        return self.packed_of(pieces.all())

    def do(self, steps: Steps[None]) -> UnderWay | None:
        """Run steps for this call whose result is not awaited. If they fail, the connection is closed.

        Returns what may be cancelled to end the steps; None if all were few and are made.
        """
        return self.slices.do(steps, self._hang_up)

    def _hang_up(self) -> None:
        self.complete(None)


class Call(_Working):
    """A request that is being carried out. Nothing of it is durable, nor outlives its answer.

    A handler that cannot answer at once returns `later(...)` and completes the call when it can; the connection is
    muted until then. `received_s`, `handled_s` (when the handler returned without an answer) and `completed_s` are
    seconds of the monotonic clock; the last of them and `ending` are only there for an observer. Where one wants more,
    there are `acks` (of Produce, else NO_ACKS), `replica_id` (of Fetch by a broker, else -1) and what was done to
    `partitions`, and `handled_s` is 0 where the handler has answered at once.
    """

    __slots__ = (
        "_completion",
        "acks",
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
        "observation",
        "partitions",
        "received_s",
        "refusal",
        "replica_id",
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
    acks: int
    replica_id: int

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
        self.observation: Any = None
        """Belongs to the RequestObserver."""
        self.partitions: list[PartitionFacts] | None = None
        """Handlers of Produce and Fetch add to it where there is a list."""
        self.reply: Reply = ()
        self.throttle_ms = 0

    def keep_details(self) -> None:
        """An observer wants to know of partitions, acks, replicas, and when the handler returned."""
        self.handled_s = 0.0
        self.acks = NO_ACKS
        self.replica_id = -1
        self.partitions = []

    @property
    def listener(self) -> str:
        return self.connection.listener

    def later(self, on_cancel: Callable[[], None] | None = None) -> "Call":
        """To be returned by a handler that will complete the call; `on_cancel` runs when the client has gone.

        A call that is pending already stays so, with another `on_cancel`.
        """
        if hasattr(self, "_callback"):
            self.on_cancel = on_cancel
        else:
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
