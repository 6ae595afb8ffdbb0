"""How an API is described, and what its handler may use: the context of the role that serves it.

A handler reads `request` (kio's entity of whichever version came), looks at or changes what its context holds, and
returns Fields or an awaitable of them. It knows no sockets, no versions' encodings and no correlation ids; who asks and
how is in its `Call`. Where an API has a shorter way, its handler gets a RequestReader, and returns the packed reply or
the call itself, which it completes later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar
from uuid import UUID

from broker_runtime.apis.call import Call
from broker_runtime.apis.fetch_sessions import FetchSessionCache
from broker_runtime.apis.kept_answers import KeptAnswers
from broker_runtime.apis.refused_transactions import RefusedTransactions
from broker_runtime.apis.repeated_fetch import RepeatedFetches
from broker_runtime.clock import Clock, Timer
from broker_runtime.config import BrokerSettings
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.steps import Steps
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import FORMATS

if TYPE_CHECKING:
    from broker_runtime.apis.client_telemetry import ClientTelemetry
    from broker_runtime.controller.service import ControllerService
    from broker_runtime.groups.service import GroupCoordinatorService

T = TypeVar("T")


class NodeContext(Protocol):
    """What handlers may use on brokers and on controllers."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def image(self) -> MetadataImage:
        """Metadata as far as this node has it."""
        ...

    def note_on_config(self, key: str, /) -> str | None:
        """What there is to be told of a configuration key beside its meaning: what has become of its value here."""
        ...


class FetchContext(NodeContext, Protocol):
    """What Fetch uses on brokers and on controllers."""

    @property
    def logs(self) -> LogManager: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    def led_log(self, topic: str, partition: int, /) -> tuple[Log, int]:
        """The log of a partition that this node leads, and its leader epoch.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None], /) -> Timer: ...


class ControllerRequests(Protocol):
    """Requests of this broker to the active controller; they raise KafkaError when it cannot be reached."""

    async def request(self, api_key: int, version: int, content: Fields) -> Entity: ...

    async def forward(self, api_key: int, version: int, body: memoryview) -> memoryview:
        """The controller's response body to a client's request body."""
        ...


class ProducerIds(Protocol):
    """Where InitProducerId has its ids from."""

    async def next_id(self) -> int:
        """A producer id that no other producer of the cluster has."""
        ...


class OwnListeners(Protocol):
    """The listeners of this broker, as its dynamic configuration changes them."""

    def opening(self, change: Callable[[], Mapping[str, str]], /) -> AbstractAsyncContextManager[Mapping[str, str]]:
        """Holds open what `change` adds: it gives the dynamic configuration that this broker is to have.

        Raises KafkaError(INVALID_REQUEST) when that cannot be.
        """
        ...

    async def in_force(self, own: Mapping[str, str], timeout_s: float, /) -> bool:
        """Wait until the listeners are as `own` says."""
        ...


class TopicCreation(Protocol):
    """Has topics made that clients name and nobody has created."""

    def ask_for(self, names: Collection[str], /) -> None:
        """Have topics made that a client has asked for; nobody waits for them."""
        ...


class ReplicasContext(FetchContext, Protocol):
    """Replicas of a broker, led here or not."""

    def replica_log(self, topic_id: UUID, partition: int, leader_epoch: int, /) -> Log:
        """The log of a replica that agrees with the leader's of this epoch, led here or not. Raises KafkaError."""
        ...

    @property
    def offline_replicas(self) -> Mapping[tuple[str, int], str]:
        """Partitions that this broker should have a replica of, and why it does not serve them."""
        ...

    def said_of_repair(self, topic: str, partition: int, /) -> str:
        """State of the repair of a damaged replica, as half a sentence."""
        ...


class BrokerContext(ReplicasContext, Protocol):
    """What handlers may use on a broker."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def auto_topic_creation(self) -> TopicCreation: ...

    @property
    def groups(self) -> "GroupCoordinatorService":
        """Coordinates the groups of which this broker leads the partition."""
        ...

    @property
    def refused_transactions(self) -> RefusedTransactions: ...

    @property
    def telemetry(self) -> "ClientTelemetry": ...

    @property
    def listeners(self) -> OwnListeners: ...

    @property
    def all_topics(self) -> KeptAnswers:
        """Of Metadata about all topics."""
        ...

    @property
    def controller(self) -> ControllerRequests: ...

    @property
    def slow_controller(self) -> ControllerRequests:
        """For requests that wait for others than the controller: on one link answers come in the order of requests."""
        ...

    @property
    def repeated_fetches(self) -> RepeatedFetches: ...

    def led(self, topic: str, partition: int, /) -> LeaderReplica:
        """As `led_log`, with the followers; on the hot path. Raises the same."""
        ...

    def run_aside(self, work: Callable[[], T], /) -> asyncio.Future[T]:
        """Run what takes long in another thread, a few at a time; the result is what `work` returns.

        Raises KafkaError, which makes a client try again, when too much waits already.
        """
        ...


class ControllerContext(FetchContext, Protocol):
    """What handlers may use on a controller, be it active or on standby. It leads the log of the metadata only."""

    @property
    def controller(self) -> "ControllerService": ...

    async def resolve_hosts(self, names: Iterable[str], /) -> Mapping[str, Sequence[str]]:
        """The addresses of those host names that have any, all asked for at once and within a time."""
        ...


C = TypeVar("C", contravariant=True)

Answer = Fields | Reply | PendingReply
Later = Awaitable[Fields | Reply | Steps[Fields | Reply]]
Handled = Answer | Later | Steps[Answer | Later]
Handler = Callable[[Any, Call, C], Handled]
"""ProtocolError ends the connection: for a request that is none, and where a client can be told in no other way.

A handler whose work grows with the request, or with what is there, returns `Steps`.
"""

Gate = Callable[[Call], Answer | Later | None]
"""Asked of every call between reading its request and handling it; None lets it pass.

Anything else is the answer instead of the handler's: how an authorizer refuses. A throttle calls `Call.throttle` and
lets it pass. What `Call.request` is stands in `ApiSpec.reads`; a RequestReader must be left where it was.
"""


class ReadRequest(NamedTuple):
    """A request, and the bytes of its body, for who passes it on."""

    entity: Entity
    body: bytes


def _never(_: Entity) -> Steps[bool]:
    return False
    yield


@dataclass(frozen=True, slots=True)
class ApiSpec(Generic[C]):
    """One API as a kind of listener serves it; `C` is the context of its handler.

    `reads`: what the handler gets, kio's entity, a RequestReader, or a ReadRequest. `counts_itself`: the handler holds
    the items of its request against the limits. `any_version`: the handler answers versions outside of `versions`, too.
    `on_standby`: a controller that is not the active one answers too, by NOT_CONTROLLER or another code that says so,
    or because the answer is about this process only. `outlives_client`: steps that have begun are carried out to their
    end when the client has gone. `slow` says of a request that its answer waits for others than
    the controller, such as a name server.
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
