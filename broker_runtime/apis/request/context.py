"""The description of an API, and the context that its handler may use, one for each role.

A handler reads `request` (kio's entity of the request's version), reads or changes objects of its context, and returns
Fields or an awaitable of them. It does not see sockets, encodings or correlation ids. Its `Call` describes the client
and the request's header. On hot paths a handler gets a RequestReader instead, and returns the packed reply or the call
itself, which it completes later. `dispatch` lists all that a handler may return.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar
from uuid import UUID

from broker_runtime.apis.fetch_sessions.fetch_sessions import FetchSessionCache
from broker_runtime.apis.fetch_sessions.repeated_fetch import RepeatedFetches
from broker_runtime.apis.request.answer_cache import AnswerCache
from broker_runtime.apis.request.call import Call, ForwardedClient
from broker_runtime.clock import Clock, Timer
from broker_runtime.config import BrokerSettings
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.reply import Parts, PendingReply, Reply
from broker_runtime.wire.versions import FORMATS

if TYPE_CHECKING:
    from broker_runtime.apis.request.charged_call import ChargedCall
    from broker_runtime.apis.request.client_telemetry import ClientTelemetry
    from broker_runtime.apis.request.verification import VerifiesTransactions
    from broker_runtime.controller.service import ControllerService
    from broker_runtime.groups.service import GroupCoordinatorService
    from broker_runtime.transactions.markers.local_markers import LocalMarkers
    from broker_runtime.transactions.service import TransactionCoordinatorService

T = TypeVar("T")


class NodeContext(Protocol):
    """The context of handlers that run on brokers and on controllers."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def image(self) -> MetadataImage:
        """Return the metadata that this node has replicated so far."""
        ...

    def note_on_config(self, key: str, /) -> str | None:
        """Return a note for the documentation of a key, about the key's value on this node. May be None."""
        ...


class FetchContext(NodeContext, Protocol):
    """The context of Fetch on brokers and on controllers."""

    @property
    def logs(self) -> LogManager: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    def led_log(self, topic: str, partition: int, /) -> tuple[Log, int]:
        """Return the log of a partition that this node leads, and its leader epoch.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None], /) -> Timer: ...


class ControllerRequests(Protocol):
    """Requests of this broker to the active controller. They raise KafkaError if it is unreachable."""

    async def request(self, api_key: int, version: int, content: Fields) -> Entity: ...

    async def forward(self, api_key: int, version: int, body: memoryview) -> Parts:
        """Return the controller's response body to a client's request body."""
        ...


class ProducerIds(Protocol):
    """The source of producer ids for InitProducerId."""

    async def next_id(self) -> int:
        """Return a producer id that is unique in the cluster."""
        ...


class OwnListeners(Protocol):
    """The listeners of this broker, which the broker's dynamic configuration can change."""

    def opening(self, change: Callable[[], Mapping[str, str]], /) -> AbstractAsyncContextManager[Mapping[str, str]]:
        """Reserve the ports of the listeners that `change` adds, while the context manager is active.

        `change` returns the new dynamic configuration of this broker. Raises KafkaError(INVALID_REQUEST) for an invalid
        configuration, or a port that cannot be opened.
        """
        ...

    async def in_force(self, own: Mapping[str, str], timeout_s: float, /) -> bool:
        """Wait until the listeners of the dynamic configuration `own` are in force. Return False after the timeout."""
        ...


class TopicCreation(Protocol):
    """Creates topics that clients request and that do not exist."""

    def ask_for(self, names: Collection[str], client: ForwardedClient | None = None, /) -> None:
        """Start to create topics that a client has requested. Does not wait for the result.

        `client` is the client to charge, if the controller has to know it.
        """
        ...


class ReplicasContext(FetchContext, Protocol):
    """The context of handlers that use a broker's replicas, led here or not."""

    def replica_log(self, topic_id: UUID, partition: int, leader_epoch: int, /) -> Log:
        """Return the log of a replica that matches the leader's log in this epoch, led here or not.

        Raises KafkaError.
        """
        ...

    @property
    def offline_replicas(self) -> Mapping[tuple[str, int], str]:
        """Return the partitions whose assigned replica this broker does not serve, with the reason."""
        ...

    def repair_state(self, topic: str, partition: int, /) -> str:
        """Return the state of the repair of a damaged replica, as a clause for a message."""
        ...


class TransactionalContext(Protocol):
    """The context of handlers that run on brokers and take part in transactions."""

    @property
    def transactions(self) -> "TransactionCoordinatorService":
        """Return the coordinator of the transactional ids whose __transaction_state partition this broker leads."""
        ...

    @property
    def transaction_verifier(self) -> "VerifiesTransactions":
        """Return the component that asks the coordinators of transactions before records are appended (KIP-890)."""
        ...

    @property
    def local_markers(self) -> "LocalMarkers":
        """Return the component that writes markers of transactions to the partitions that this broker leads."""
        ...


class BrokerContext(ReplicasContext, TransactionalContext, Protocol):
    """The context of handlers that run on brokers."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def auto_topic_creation(self) -> TopicCreation: ...

    @property
    def groups(self) -> "GroupCoordinatorService":
        """Return the coordinator of the groups whose __consumer_offsets partition this broker leads."""
        ...

    @property
    def telemetry(self) -> "ClientTelemetry": ...

    @property
    def listeners(self) -> OwnListeners: ...

    @property
    def all_topics(self) -> AnswerCache:
        """Return the cached answers to Metadata requests for all topics."""
        ...

    @property
    def controller(self) -> ControllerRequests: ...

    @property
    def slow_controller(self) -> ControllerRequests:
        """Return the link for requests that wait for other systems than the controller.

        The answers on one link arrive in the order of the requests, so a slow one would delay the others.
        """
        ...

    @property
    def repeated_fetches(self) -> RepeatedFetches: ...

    def led(self, topic: str, partition: int, /) -> LeaderReplica:
        """Return the leader's replica, with its followers, for frequent requests.

        Raises the same errors as `led_log`.
        """
        ...

    def offload(self, work: Callable[[], T], /) -> asyncio.Future[T]:
        """Run slow work in one of a few other threads. The future has the result of `work`.

        Raises KafkaError with a retriable code if too much work is already queued.
        """
        ...


class ControllerContext(FetchContext, Protocol):
    """The context of handlers that run on controllers, active or standby. A controller leads only the metadata log."""

    @property
    def controller(self) -> "ControllerService": ...

    def charge(self, call: Call, /, *, strict: bool) -> "ChargedCall | None":
        """Return the charge of the partitions that a call creates or deletes (KIP-599); None without quotas.

        If `strict`, topics over the caller's quota are refused.
        """
        ...

    def serve(self, frame: memoryview, connection: ServedConnection, /) -> Reply | PendingReply:
        """Answer a request that a broker has forwarded, as if its client were connected. Raises ProtocolError."""
        ...

    async def resolve_hosts(self, names: Iterable[str], /) -> Mapping[str, Sequence[str]]:
        """Return the addresses of the host names that can be resolved.

        All queries run in parallel, with one timeout.
        """
        ...


C = TypeVar("C", contravariant=True)

Handled = Reply | Fields | Call | Steps["Handled"] | Awaitable["Handled"]
"""The result of a handler: an answer, or the work that returns it.

`dispatch` describes the five forms, and what each is for.
"""
Handler = Callable[[Any, Call, C], Handled]
"""A function that handles one request.

It raises ProtocolError to end the connection: for a malformed request, or if no answer can carry the error. A handler
whose work grows with the size of the request or of the cluster returns `Steps`.
"""

Gate = Callable[[Call], Handled | None]
"""A function that checks a call after its request is read and before it is handled. None lets the call pass.

Any other result is the answer instead of the handler's: an authorizer refuses a request this way. A throttle calls
`Call.throttle` and lets the call pass. `ApiSpec.reads` defines the type of `Call.request`. A gate must restore the
position of a RequestReader.
"""


class ReadRequest(NamedTuple):
    """A request and the bytes of its body, for a handler that forwards it."""

    entity: Entity
    body: bytes


def _never(_: Entity) -> Steps[bool]:
    return False
    yield


@dataclass(frozen=True, slots=True)
class ApiSpec(Generic[C]):
    """An API and its handler, as one kind of listener serves it. `C` is the context of the handler.

    `reads`: the argument of the handler: kio's entity, a RequestReader, or a ReadRequest. `counts_itself`: the handler
    itself checks the number of items in its request against the limits. `any_version`: the handler also answers
    versions outside of `versions`. `on_standby`: standby controllers answer too, with NOT_CONTROLLER or a similar code,
    or because the answer is only about this process. `outlives_client`: steps that have begun run to their end even
    after the client has disconnected. `slow`: whether the answer to a request waits for another system than the
    controller, such as a name server.
    """

    key: int
    name: str
    versions: tuple[int, int]
    handle: Handler[C]
    reads: Literal["entity", "frame", "entity and body"] = "entity"
    counts_itself: bool = False
    any_version: bool = False
    on_standby: bool = False
    outlives_client: bool = False
    slow: Callable[[Entity], Steps[bool]] = _never
    flexible_from: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "flexible_from", FORMATS[self.key].flexible_from)


ZERO_UUID = UUID(int=0)
