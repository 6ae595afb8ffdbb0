"""What every API handler is given and how an API is described.

A handler reads `request` (kio's entity of whichever version came), looks at or changes the `Node`, and returns Fields
or an awaitable of them. It knows no sockets, no versions' encodings and no correlation ids.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

from broker_runtime.apis.fetch_sessions import FetchSessionCache
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings, TopicConfig
from broker_runtime.controller.service import ControllerService
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.log import Log
from broker_runtime.storage.manager import LogManager
from broker_runtime.wire.messages import Entity, Fields


@dataclass(slots=True)
class RequestContext:
    """Who asks: the listener decides which addresses Metadata shows, the rest is for logs and messages."""

    api_key: int
    version: int
    client_id: str | None
    listener: str
    peer_host: str


class ProducerIds(Protocol):
    async def next_id(self) -> int:
        """A producer id that no other producer of the cluster has."""
        ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Node(Protocol):
    """The parts of a broker or controller process that handlers may use."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def image(self) -> MetadataImage:
        """Metadata as far as this node has it."""
        ...

    @property
    def logs(self) -> LogManager: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def controller(self) -> ControllerService | None:
        """Present where this process is the active controller."""
        ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def cluster_id(self) -> str: ...

    def led_log(self, topic: str, partition: int) -> tuple[Log, int]:
        """The log of a partition that this node leads, and the leader epoch; on the hot path.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
        """
        ...

    def led(self, topic: str, partition: int) -> LeaderReplica:
        """The same with its followers; only brokers have it. Raises the same."""
        ...

    def run_aside(self, work: Callable[[], None]) -> Future[None]:
        """Run what takes long in another thread, a few at a time.

        Raises KafkaError, which makes a client try again, when too much waits already.
        """
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer: ...

    def topic_config(self, topic: str) -> TopicConfig:
        """The effective configuration of a topic on this broker."""
        ...

    async def wait_until(self, seen: Callable[[MetadataImage], bool]) -> bool:
        """Whether `seen` came true of this node's metadata within request.timeout.ms."""
        ...

    async def resolve_hosts(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """The addresses of those host names that have any, all asked for at once and within a time."""
        ...

    async def send_to_controller(self, api_key: int, version: int, request: Fields) -> Entity: ...


Handler = Callable[[Entity, RequestContext, Node], Fields | Awaitable[Fields]]


def _never(_: Entity) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ApiSpec:
    """`runs_on` controller: a broker that is not the active controller forwards the request as it came.

    `slow` says of a request that its answer waits for others than the controller, such as a name server: it goes by a
    link of its own, for on one link answers come in the order of the requests.
    """

    key: int
    name: str
    versions: tuple[int, int]
    handle: Handler
    runs_on: Literal["broker", "controller"] = "broker"
    slow: Callable[[Entity], bool] = _never


ZERO_UUID = UUID(int=0)
