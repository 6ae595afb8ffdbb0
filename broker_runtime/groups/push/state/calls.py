"""The calls of the coordinator to its consumers, as data: the owner of the connections sends them. Pure."""

from typing import NamedTuple, Protocol

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.push.state.log_ends import LogEnds
from broker_runtime.groups.tally import PushTally

PINGS_A_SESSION = 3


class Ping(NamedTuple):
    """The broker's call to a push consumer that checks whether it is alive.

    `num_retries` counts the pings before it that were not answered in time.
    """

    consumer_id: str
    num_retries: int


class StopFetcher(NamedTuple):
    """The broker's call to a push consumer that stops its fetchers. The answer has the consumer's offsets."""

    consumer_id: str


class StartAt(NamedTuple):
    """A partition and the offset of the next record to read; EARLIEST or LATEST if none is committed."""

    topic: str
    partition: int
    offset: int


EARLIEST, LATEST = -2, -1
"""Kafka's numbers for both ends of a log (ListOffsets)."""


class StartFetcher(NamedTuple):
    """The call that starts the threads of the consumer that have partitions, by thread id.

    Without any thread the consumer reads nothing.
    """

    consumer_id: str
    threads: tuple[tuple[str, tuple[StartAt, ...]], ...]


class HangUp(NamedTuple):
    """The command to close the connection of a consumer that has failed or is not registered on it."""

    why: str


Call = Ping | StopFetcher | StartFetcher | HangUp


class Calls(Protocol):
    """Sends calls to push consumers, in order for each connection.

    A call is sent once everything that was decided before it is durable.
    """

    def send(self, connection: int, call: Call) -> None:
        """Send a call to a push consumer.

        The call is dropped if the connection has ended: the end is reported separately.
        """
        ...

    def is_behind(self, connection: int) -> bool:
        """Return whether the coordinator, and not the consumer, is late on this connection.

        The coordinator is late if a call has not been sent yet, or data of the consumer has not been read or decided
        yet.
        """
        ...


class Taker(Protocol):
    """A connection on which a consumer registers, and which takes calls to this consumer."""

    def take(self, call: Call, /) -> None: ...

    @property
    def is_behind(self) -> bool:
        """Whether the coordinator, and not the consumer, is late on this connection."""
        ...


class Callers:
    """The connections on which consumers are registered, for all shards of a broker. Each takes calls."""

    def __init__(self) -> None:
        self._takers: dict[int, Taker] = {}

    def __len__(self) -> int:
        """Return the number of consumers that are registered or are registering."""
        return len(self._takers)

    def add(self, connection: int, taker: Taker) -> None:
        self._takers[connection] = taker

    def remove(self, connection: int) -> None:
        """Remove the connection of a push consumer, which has ended."""
        self._takers.pop(connection, None)

    def send(self, connection: int, call: Call) -> None:
        taker = self._takers.get(connection)
        if taker is not None:
            taker.take(call)

    def is_behind(self, connection: int) -> bool:
        """Return whether the coordinator, and not the consumer, is late; False for a connection that has ended."""
        taker = self._takers.get(connection)
        return taker is not None and taker.is_behind


class PushEnvironment(GroupEnvironment, Protocol):
    """Objects and settings that decisions about push groups need."""

    @property
    def calls(self) -> Calls: ...

    @property
    def ends(self) -> LogEnds: ...

    @property
    def tally(self) -> PushTally: ...

    def monotonic_s(self) -> float:
        """Return the monotonic time in seconds, to measure durations."""
        ...
