"""What observers have of the broker that they are in. Pure, and all that a broker without any has to import."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from broker_runtime.apis.call import RequestObserver
from broker_runtime.clock import Clock, Timer
from broker_runtime.network.connection_notices import TellOfConnection

TopicName = Callable[[UUID], str | None]
"""The name of a topic by its id; None when it is not known."""


class ObservedParts(Protocol):
    """Where there is something to observe; None where nobody wants to."""

    def observe_requests(self, requests: RequestObserver | None, /) -> None: ...

    def observe_connections(self, tell: TellOfConnection | None, /) -> None: ...


class HeldPartition(NamedTuple):
    """A partition that this broker has."""

    topic: str
    partition: int
    bytes: int
    log_start_offset: int
    log_end_offset: int
    is_leader: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an observer that is part of the broker is told of it, where it has `attach`.

    `call_later` (in seconds) and `partitions` belong to the event loop, as all `record_` methods do; `call_soon` has
    something called there, and may be used from any thread.
    """

    node_id: int
    cluster_id: str
    log_dir: str
    clock: Clock
    call_soon: Callable[[Callable[[], None]], object]
    call_later: Callable[[float, Callable[[], None]], Timer]
    partitions: Callable[[], Iterable[HeldPartition]]
