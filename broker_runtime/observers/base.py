"""The interface of an observer: KIP-388 in Python, and its optional extensions. Pure.

An observer sees requests and responses, and changes none. It is created without arguments, then `configure` is called,
and finally `close`; both run in a thread of their own and may be slow. All other methods are called on the broker's
event loop, one call after the other: they have to be fast, and slow work belongs into a thread (`background`).
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from broker_runtime.apis.request.call import Call
from broker_runtime.exposition import MetricFamily
from broker_runtime.network.connection.connection_notices import ConnectionNotice
from broker_runtime.observers.surroundings import BrokerFacts
from broker_runtime.observers.view import Struct

Config = Mapping[str, str]
"""The settings of an observer: those under `observer.<name>.`, without that prefix."""


@runtime_checkable
class ConfigurableObserver(Protocol):
    """The interface of every observer."""

    def configure(self, config: Config, /) -> None:
        """Use `config` as the observer's configuration.

        Raises any exception that describes the fault of `config`: then the observer is not loaded.
        """
        ...

    def close(self, timeout_s: float, /) -> None:
        """Stop this observer. The broker waits at most `timeout_s` and then abandons the call."""
        ...


@runtime_checkable
class Observer(ConfigurableObserver, Protocol):
    """An observer that sees requests and responses.

    `correlation_id` names the connection and the request, the same in both calls. Clients number their requests: a
    client that uses a number twice cannot distinguish these requests either.
    """

    def record_request(
        self,
        struct: Struct,
        client_address: str,
        principal: str,
        api_key: int,
        api_version: int,
        correlation_id: str,
        /,
    ) -> None:
        """Observe a request that is about to be handled. `struct` is the request, valid during this call."""
        ...

    def record_response(self, struct: Struct, api_version: int, correlation_id: str, /) -> None:
        """Observe a response that is about to be sent. `struct` is the response, valid during this call."""
        ...


class NoResponse(StrEnum):
    """The reason why a request has no response."""

    NOT_WANTED = "not wanted"
    """The request is a Produce with acks=0."""
    REFUSED = "refused"
    """The request closes its connection."""
    HUNG_UP = "hung up"
    """The connection closes because the response cannot be completed."""
    CANCELLED = "cancelled"
    """The client has disconnected, or the broker stops."""


@runtime_checkable
class UnansweredObserver(Protocol):
    """An observer that is also notified of requests without a response.

    Each recorded request has a response or this call.
    """

    def record_no_response(self, why: NoResponse, api_version: int, correlation_id: str, /) -> None: ...


@runtime_checkable
class ConnectionObserver(ConfigurableObserver, Protocol):
    """An observer that sees connections: a storm consists of connections that never send a request."""

    def record_connection(self, notice: ConnectionNotice, /) -> None: ...


@runtime_checkable
class MeasuredObserver(Protocol):
    """An observer with its own metrics, which /metrics shows beside the broker's."""

    def collect(self) -> Iterable[MetricFamily]: ...


@runtime_checkable
class ReconfiguredObserver(Protocol):
    """An observer that accepts a new configuration.

    Any other observer is replaced by a new instance, and closed once that is loaded.
    """

    def reconfigure(self, config: Config, /) -> None:
        """Apply `config`, in a thread, while other methods may be called.

        If this raises an error, the old configuration stays.
        """
        ...


@runtime_checkable
class CallObserver(ConfigurableObserver, Protocol):
    """An observer inside the broker that accounts for all requests. It is called once for each ended request."""

    def record_call(self, call: Call, /) -> None:
        """Record a `Call`, complete with the facts that `Call.keep_details` requests; see also `apis.request.observed`.

        `partitions` is None if the call was refused before it could begin.
        """
        ...


@runtime_checkable
class NotingObserver(Protocol):
    """An observer that notes something of requests of a few APIs before their handlers.

    The notes are `Call.notes`, or `Call.group_id`.
    """

    @property
    def noted_apis(self) -> Collection[int]:
        """Return the keys of these APIs; read once, when the observer comes into service."""
        ...

    def note(self, call: Call, frame: memoryview, body_at: int, /) -> None:
        """Take notice of a request before it is handled.

        Its `Call.request` is its entity unless the request is long, or read by its handler.
        """
        ...


@runtime_checkable
class RefusingObserver(Protocol):
    """An observer that refuses a request rather than leave its outcome unrecorded."""

    @property
    def rejects(self) -> bool:
        """Return whether the observer ever refuses a request; read once, when the observer comes into service."""
        ...

    def refuses(self, call: Call, /) -> bool:
        """Return whether to refuse this request now."""
        ...


@runtime_checkable
class AttachedObserver(Protocol):
    """An observer that gets facts about the broker before `configure`."""

    def attach(self, surroundings: BrokerFacts, /) -> None: ...
