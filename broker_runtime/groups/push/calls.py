"""What the coordinator asks of its consumers, as data: whoever has their connections sends it. Pure."""

from typing import NamedTuple, Protocol

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.push.log_ends import LogEnds
from broker_runtime.groups.tally import PushTally

PINGS_A_SESSION = 3


class Ping(NamedTuple):
    """`num_retries` pings before it were not answered in time."""

    consumer_id: str
    num_retries: int


class StopFetcher(NamedTuple):
    """The consumer stops its fetchers, and says how far it came."""

    consumer_id: str


class StartAt(NamedTuple):
    """A partition, and the offset of the next record to read; EARLIEST or LATEST where nothing was committed."""

    topic: str
    partition: int
    offset: int


EARLIEST, LATEST = -2, -1
"""Kafka's numbers of both ends of a log (ListOffsets)."""


class StartFetcher(NamedTuple):
    """The consumer's threads that have partitions, by their ids. Without any it reads nothing."""

    consumer_id: str
    threads: tuple[tuple[str, tuple[StartAt, ...]], ...]


class HangUp(NamedTuple):
    """The connection ends: its consumer has failed, or is not who it says."""

    why: str


Call = Ping | StopFetcher | StartFetcher | HangUp


class Calls(Protocol):
    """Sends calls, in their order for each connection, once all is durable that was decided before them."""

    def send(self, connection: int, call: Call) -> None:
        """To nobody where that connection has ended: its end is told apart from this."""
        ...

    def is_behind(self, connection: int) -> bool:
        """Whether this coordinator is late there, and not the consumer: a call has not left yet, or what the consumer
        has sent was not read, or not decided."""
        ...


class Taker(Protocol):
    """A connection on which a consumer registers."""

    def take(self, call: Call, /) -> None: ...

    @property
    def is_behind(self) -> bool:
        """As of `Calls`."""
        ...


class Callers:
    """Who takes the calls to each connection on which a consumer registers, for all shards of a broker."""

    def __init__(self) -> None:
        self._takers: dict[int, Taker] = {}

    def __len__(self) -> int:
        """Consumers that are registered, or about to be."""
        return len(self._takers)

    def add(self, connection: int, taker: Taker) -> None:
        self._takers[connection] = taker

    def remove(self, connection: int) -> None:
        """It has ended."""
        self._takers.pop(connection, None)

    def send(self, connection: int, call: Call) -> None:
        taker = self._takers.get(connection)
        if taker is not None:
            taker.take(call)

    def is_behind(self, connection: int) -> bool:
        """As of `Calls`; not where it has ended."""
        taker = self._takers.get(connection)
        return taker is not None and taker.is_behind


class PushEnvironment(GroupEnvironment, Protocol):
    """What decisions about groups of this protocol may use."""

    @property
    def calls(self) -> Calls: ...

    @property
    def ends(self) -> LogEnds: ...

    @property
    def tally(self) -> PushTally: ...

    def monotonic_s(self) -> float:
        """For how long something took."""
        ...
