"""What the broker passes to its observers. Pure, and all that a broker without observers imports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from broker_runtime.apis.request.call import RequestObserver
from broker_runtime.clock import Clock, Timer
from broker_runtime.network.connection.connection_notices import OnNotice

if TYPE_CHECKING:
    from connection_limits.recorded.rows import LimitChange, TellOfLimits

TopicName = Callable[[UUID], str | None]
"""A function that returns the name of a topic by its ID; None for an unknown topic."""


class ObservedParts(Protocol):
    """The parts of the broker that can be observed. None turns the observation off."""

    def observe_requests(self, requests: RequestObserver | None, /) -> None: ...

    def observe_connections(self, on_notice: OnNotice | None, /) -> None: ...


class HostedPartition(NamedTuple):
    """A partition that this broker has, with its size and offsets."""

    topic: str
    partition: int
    bytes: int
    log_start_offset: int
    log_end_offset: int
    is_leader: bool


class MetadataBefore(Protocol):
    """The metadata as this broker knows it: before a change that the broker has not read yet.

    No method raises.
    """

    def topic_name(self, topic_id: UUID, /) -> str | None: ...

    def configs(self, resource_type: int, name: str, /) -> Mapping[str, str]:
        """Return the dynamic configuration of a resource, by the admin protocol's number of its type."""
        ...

    def partitions(self, topic: str, /) -> int | None:
        """Return the number of partitions of a topic; None for an unknown topic."""
        ...

    def replicas(self, topic: str, partition: int, /) -> tuple[int, ...] | None: ...

    def quota(self, entity: tuple[tuple[str, str | None], ...], key: str, /) -> float | None: ...

    def feature(self, name: str, /) -> int | None: ...


class LimitsToObserve(Protocol):
    """The limits on the connections of this broker, and their changes. All methods belong to the event loop."""

    def observe(self, tell: "TellOfLimits", /) -> None:
        """Send every change from now on to `tell`, too."""
        ...

    def forget(self, tell: "TellOfLimits", /) -> None:
        """Send `tell` nothing any more; it need not be an observer."""
        ...

    def in_force(self) -> "LimitChange":
        """Return a report of all limits that are in force now. Its rows are made when they are read."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """Facts about the broker for an observer that is part of it and has `attach`.

    `call_later` (in seconds), `partitions` and `registered_brokers` belong to the event loop, like all `record_`
    methods. `call_soon` schedules a call on the event loop, and may be used from any thread.
    """

    node_id: int
    cluster_id: str
    log_dir: str
    clock: Clock
    call_soon: Callable[[Callable[[], None]], object]
    call_later: Callable[[float, Callable[[], None]], Timer]
    partitions: Callable[[], Iterable[HostedPartition]]
    registered_brokers: Callable[[], Iterable[int]]
    """Function that returns the ID of each registered broker of the cluster."""
    metadata: Callable[[], MetadataBefore]
    """Function that returns the broker's copy of the metadata."""
    limits: LimitsToObserve
