"""What an observer is: the interface of KIP-388 in Python, and what it may have beside it. Pure.

An observer sees requests and responses, and changes none. It is made without arguments, then `configure` is called,
and in the end `close`; both in a thread of their own, so that they may take their time. Everything else is called on
the broker's event loop, one call after the other: it has to be quick, and what is slow belongs into a thread
(`background`).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from broker_runtime.apis.call import Call
from broker_runtime.exposition import MetricFamily
from broker_runtime.network.connection_notices import ConnectionNotice
from broker_runtime.observers.surroundings import Surroundings
from broker_runtime.observers.view import Struct

Config = Mapping[str, str]
"""What stands under `observer.<name>.`, without that prefix."""


@runtime_checkable
class Configured(Protocol):
    """What every observer has."""

    def configure(self, config: Config, /) -> None:
        """Raises whatever says best what is wrong with `config`; the observer is not loaded then."""
        ...

    def close(self, timeout_s: float, /) -> None:
        """Nothing is observed any more; what takes longer than `timeout_s` is left behind."""
        ...


@runtime_checkable
class Observer(Configured, Protocol):
    """Sees requests and responses. `correlation_id` names the connection and the request, the same in both calls.

    It is the client who numbers requests: one that gives two of them the same number cannot tell them apart either.
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
        """`struct` is the request, which is about to be carried out. It is valid during this call."""
        ...

    def record_response(self, struct: Struct, api_version: int, correlation_id: str, /) -> None:
        """`struct` is the response, which is about to be sent. It is valid during this call."""
        ...


class NoResponse(StrEnum):
    """Why a request has no response."""

    NOT_WANTED = "not wanted"
    """Produce with acks=0."""
    REFUSED = "refused"
    """The request ends its connection."""
    HUNG_UP = "hung up"
    """The connection ends because the answer that was under way cannot be given."""
    CANCELLED = "cancelled"
    """The client has gone, or the broker stops."""


@runtime_checkable
class UnansweredObserver(Protocol):
    """Is told, too, of requests that will have no response: of each that was recorded there is either."""

    def record_no_response(self, why: NoResponse, api_version: int, correlation_id: str, /) -> None: ...


@runtime_checkable
class ConnectionObserver(Configured, Protocol):
    """Sees connections: a storm consists of connections that never send a request."""

    def record_connection(self, notice: ConnectionNotice, /) -> None: ...


@runtime_checkable
class MeasuredObserver(Protocol):
    """Has metrics of its own, which /metrics shows beside the broker's."""

    def collect(self) -> Iterable[MetricFamily]: ...


@runtime_checkable
class ReconfiguredObserver(Protocol):
    """Goes on with another configuration; others are made anew, and closed when the new one is there."""

    def reconfigure(self, config: Config, /) -> None:
        """In a thread, while it may be called. Where it raises, it goes on as before."""
        ...


@runtime_checkable
class CallObserver(Configured, Protocol):
    """One that is part of the broker and keeps an account of all requests: one call for each that has ended."""

    def record_call(self, call: Call, /) -> None:
        """The `Call` has all facts, with those that `Call.keep_details` asks for; see `apis.observed`, too.

        Where `partitions` is None the call was refused before it could begin.
        """
        ...


@runtime_checkable
class RefusingObserver(Protocol):
    """Would rather have a request refused than not record what becomes of it."""

    @property
    def rejects(self) -> bool:
        """Whether it ever does; asked when it comes into service."""
        ...

    def refuses(self, call: Call, /) -> bool:
        """Whether this request is to be refused now."""
        ...


@runtime_checkable
class AttachedObserver(Protocol):
    """Is told where it runs, before `configure`."""

    def attach(self, surroundings: Surroundings, /) -> None: ...
