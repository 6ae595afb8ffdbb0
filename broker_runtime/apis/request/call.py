"""One request, from its header to its end.

A `Call` is created when the header of a request has been read, and ends exactly once. It is answered, its connection
is refused or closed, or it is cancelled because its client no longer waits. Each of these ends calls
`Completion.ended`, the only place where requests are observed. The call and `observed` have all the data for an
observer. Without an observer this costs one comparison.

The caller ends a call by one of these methods:

| method | the call | the client |
|---|---|---|
| `record_answer` | is answered at once | gets the reply from the dispatcher |
| `record_refusal` | fails at once | is disconnected by the dispatcher |
| `complete` | is pending | gets the reply from this method |
| `refuse` | is pending | is disconnected by this method |
| `cancel` | is pending, and its client has disconnected | gets nothing |
| `give_up` | is pending, and its task was stopped | is disconnected by this method |
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

from broker_runtime.apis.request.access import Access, Authorization
from broker_runtime.security.principal import Principal
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps, UnderWay
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix
from broker_runtime.wire.limits import DEFAULT_LIMITS, RequestLimits
from broker_runtime.wire.reply import SHORT_BYTES, PendingReply, Reply


class ClientSoftware(NamedTuple):
    """The name and version of a client library, which ApiVersions requests contain since version 3 (KIP-511)."""

    name: str
    version: str


class ForwardedClient(NamedTuple):
    """The client of a forwarded request: its principal, client id and address."""

    principal: Principal
    client_id: str | None
    address: str


PartitionFacts = tuple[str, int, int, int, int, int, int, int, int]
"""A tuple that describes the effect of a Produce or Fetch on a partition, for observers.

The fields are topic, partition, bytes, records, base offset, last offset, base and greatest timestamp in milliseconds,
and error code. A field is -1 if its value is unknown or does not apply. A plain tuple, because with an observer each
partition of each such request needs one.
"""

_THROTTLE_MS_MAX = 2**31 - 1
"""The field of an answer has no room for more: 24 days."""
NO_ACKS = -128
"""The value of `acks` in calls of APIs without acks."""


class Api(Protocol):
    """The description of a request's API that a `Call` needs. `context.ApiSpec` is the whole description."""

    @property
    def key(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> tuple[int, int]:
        """Return the oldest and the newest served version."""
        ...

    @property
    def flexible_from(self) -> int: ...

    @property
    def outlives_client(self) -> bool:
        """Return whether the work of a request continues after its client has disconnected."""
        ...


class Ending(Enum):
    """The way in which a client's request has ended. The values are for messages."""

    ANSWERED = "answered"
    """The call was answered, possibly with error codes, or needs no answer (Produce with acks=0)."""
    REFUSED = "refused"
    """The request was invalid or cannot be answered: it ends its connection, and is counted by its `refusal`.

    If the API or version is not served, the configuration `unsupported.request.reply` may keep the connection open and
    send an empty response instead.
    """
    HUNG_UP = "hung up"
    """The connection was closed because the pending answer cannot be completed."""
    CANCELLED = "cancelled"
    """The call ended without an answer because the client has disconnected, or the broker stops."""


_ANSWERED, _REFUSED, _HUNG_UP, _CANCELLED = Ending


class RequestNotes(Protocol):
    """An observer's notes about a long request, made while the fields of the request exist."""

    def read(self, api_key: int, request: Any, /) -> Steps[None]:
        """Read the entity of a request in steps, and note its content."""
        ...


class RequestObserver(Protocol):
    """Observes each request of a dispatcher: first `begun`, then `ended`.

    The methods must be quick, and must not raise except as documented.
    """

    def begun(self, call: "Call", frame: memoryview, body_at: int, /) -> None:
        """Observe a call before its handler. The body begins at `body_at`; `frame` is valid only during this call.

        Raises ProtocolError to refuse the request. An observer that needs details about partitions in `ended` calls
        `Call.keep_details` here.
        """
        ...

    def ended(self, call: "Call", /) -> None:
        """Observe the end of a call, as `Completion.observer`.

        A call may end before `begun` was called.
        """
        ...


class CallQuotas(Protocol):
    """The client quotas that calls of a dispatcher are charged to. `enforced_quotas` implements them."""

    def produced(self, call: "Call", /) -> None:
        """Charge and throttle a Produce call, before its answer is packed. `Call.acks` is set."""
        ...

    def fetch_bytes_max(self, call: "Call", /) -> int | None:
        """Return the maximum of bytes of one Fetch answer; None without a quota."""
        ...

    def fetched(self, call: "Call", size: int, /) -> bool:
        """Charge a Fetch call for an answer of `size` bytes.

        Returns False, and throttles the call, if its quota is exceeded: the answer must be empty then.
        """
        ...

    def fetched_more(self, call: "Call", more: int, /) -> None:
        """Add `more` bytes to the size that was charged for a Fetch call."""
        ...

    def ended(self, call: "Call", /) -> None:
        """Charge the time that the call has taken to the client's request quota."""
        ...


class Completion:
    """Receives the end of all calls of one dispatcher.

    `observer` is called once for each call, before the client gets the answer, and must not raise. `requests`, if set,
    is also notified before the handler gets a call. `now` is the monotonic clock in seconds. Calls with long work run
    it in `slices`, and no call may name more items than `limits` allow. `answers` counts the memory of the answers that
    are being packed, until their calls end. `authorization` checks what clients may do; None allows everything.
    `quotas` is None while no client has a quota.
    """

    __slots__ = ("_counted", "answers", "authorization", "limits", "now", "observer", "quotas", "requests", "slices")

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
        self.answers = AnswerMemory(limits.queued_response_bytes_max)
        self.observer = self._counted = observer
        self.requests: RequestObserver | None = None
        self.authorization: Authorization | None = None
        self.quotas: CallQuotas | None = None

    def observe(self, requests: RequestObserver | None) -> None:
        """Notify `requests` of every call from now on, besides the initial observer; None ends the notifications."""
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
        self.answers.packed(call)
        observer = self.observer
        if observer is not None:
            now = self.now
            call.ending = ending
            call.completed_s = now()
            quotas = self.quotas
            if quotas is not None:
                quotas.ended(call)
            observer(call)


class PackedReply(PendingReply):
    """A pending reply that packs its own response: the size, the correlation id, and the body of the API."""

    __slots__ = ()

    correlation_id: int
    flexible: bool

    def packed(self, body: bytes) -> Reply:
        """Return the response with this body."""
        return (prefix(self.correlation_id, len(body), self.flexible) + body,)

    def packed_of(self, pieces: Sequence[bytes | memoryview]) -> Reply:
        """Return the response whose body consists of these pieces, as one chunk if there is only one short piece."""
        size = sum(map(len, pieces))
        head = prefix(self.correlation_id, size, self.flexible)
        return (head + pieces[0],) if len(pieces) == 1 and size <= SHORT_BYTES else (head, *pieces)


class Call(PackedReply):
    """A request in progress, kept in memory until its answer.

    A handler that cannot answer at once returns `later(...)` and completes the call when it can. The connection is
    muted until then.

    `received_s`, `handled_s` (when the handler returned without an answer) and `completed_s` are seconds of the
    monotonic clock. `completed_s` and `ending` are only set for an observer.

    After `keep_details` the call also has `acks` (of Produce, else NO_ACKS), `replica_id` (of a broker's Fetch, else
    -1) and the effects on `partitions`. `handled_s` is 0 then if the handler answered at once.
    """

    __slots__ = (
        "acks",
        "api",
        "client_id",
        "completed_s",
        "completion",
        "connection",
        "correlation_id",
        "ending",
        "error",
        "fields",
        "flexible",
        "group_id",
        "handled_s",
        "is_exempt",
        "notes",
        "observation",
        "partitions",
        "received_s",
        "refusal",
        "replica_id",
        "reply",
        "request",
        "request_bytes",
        "sliced_s",
        "throttle_ms",
        "version",
    )

    ending: Ending
    received_s: float
    handled_s: float
    completed_s: float
    refusal: str
    """The kind of refusal under which a refused call is counted."""
    acks: int
    replica_id: int
    notes: RequestNotes
    """An observer's notes about a request that changes something; None without such an observer."""
    group_id: str | None
    """The group of a group's request; set by an observer only."""

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
        self.completion = completion
        """Where the call ends; it has the limits, quotas and slices of all calls of its dispatcher."""
        self.done = False
        self.request: Any = None
        """kio's entity of this version, or a RequestReader if the handler reads the request itself."""
        self.request_bytes = 0
        """Size of the request with its header, without the size field."""
        self.error = 0
        """The last error code in an answer that a handler has packed itself."""
        self.fields: Mapping[str, object] | None = None
        self.observation: Any = None
        """Data of the RequestObserver."""
        self.partitions: list[PartitionFacts] | None = None
        """Filled by the handlers of Produce and Fetch if it is a list."""
        self.reply: Reply = ()
        self.throttle_ms = 0
        self.is_exempt = False
        """Whether the time of this request counts for no quota: a follower's Fetch, and Produce without an answer."""
        self.sliced_s = 0.0
        """Time that the call has run in slices. Counted only while there are quotas."""

    def keep_details(self) -> None:
        """Collect partitions, acks, the replica id and the time when the handler returned, for an observer."""
        self.handled_s = 0.0
        self.acks = NO_ACKS
        self.replica_id = -1
        self.partitions = []

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def access(self) -> Access | None:
        """Return the permissions of the client; None if the node has no authorizer, so that everything is allowed."""
        authorization = self.completion.authorization
        return None if authorization is None else Access(authorization, self.connection, self.api)

    def later(self, on_cancel: Callable[[], None] | None = None) -> "Call":
        """Return this call, for a handler that completes it later.

        `on_cancel` runs if the client disconnects.

        If the call is already pending, this only replaces `on_cancel`.
        """
        if hasattr(self, "_callback"):
            self.on_cancel = on_cancel
        else:
            PendingReply.__init__(self, on_cancel)
        return self

    def throttle(self, delay_ms: int) -> None:
        """Throttle a client that exceeds a quota: mute its connection for `delay_ms` after the answer (KIP-219).

        The answer is sent at once and contains the throttle time. Call this before the answer is packed.
        """
        self.throttle_ms = max(min(delay_ms, _THROTTLE_MS_MAX), self.throttle_ms)
        self.connection.throttle_s = self.throttle_ms / 1000

    def do(self, steps: Steps[None]) -> UnderWay | None:
        """Run steps for this call whose result is not awaited. If they fail, close the connection.

        Returns a handle that cancels the remaining steps, or None if all of them have run.
        """
        return self.completion.slices.do(steps, partial(self.complete, None))

    def record_answer(self, reply: Reply) -> None:
        """Record the end of the call with this answer. The dispatcher returns the answer to the connection at once."""
        self.done = True
        self.reply = reply
        self.completion.ended(self, _ANSWERED)

    def record_refusal(self, kind: str) -> None:
        """Record the end of the call as refused, by the kind of refusal.

        The exception of the call's handler ends the connection.
        """
        if not self.done:
            self.done = True
            self.refusal = kind
            self.completion.ended(self, _REFUSED)

    def complete(self, reply: Reply | None) -> None:
        """End a pending call: send the reply to its client, or close the connection if the reply is None."""
        if self.done:
            return
        self.done = True
        if reply is not None:
            self.reply = reply
        self.completion.ended(self, _HUNG_UP if reply is None else _ANSWERED)
        self._deliver(reply)

    def refuse(self, kind: str, text: str) -> None:
        """End a pending call and its connection: the request is invalid or cannot be answered."""
        if self.done:
            return
        self.record_refusal(kind)
        self.connection.refuse(kind, text)
        self._deliver(None)

    def cancel(self) -> None:
        """End the call because the client has disconnected."""
        if not self.done:
            self.completion.ended(self, _CANCELLED)
            super().cancel()

    def give_up(self) -> None:
        """End the call because the task that should answer it has been stopped."""
        if not self.done:
            self.done = True
            self.completion.ended(self, _CANCELLED)
            self._deliver(None)


def check_response(call: Call, size: int) -> None:
    """Note that the answer of the call has `size` bytes so far. Raises ResponseTooLargeError."""
    completion = call.completion
    completion.limits.check_response(size)
    completion.answers.grown(call, size)
