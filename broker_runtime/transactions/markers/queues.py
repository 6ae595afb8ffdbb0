"""The markers that wait for each broker, and the one request that is under way to it. Pure: time is an argument."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, drain, gathered, in_order, let_go
from broker_runtime.transactions.leaders import NO_LEADER, LeaderOf
from broker_runtime.transactions.markers.results import MarkerResult, result_of
from broker_runtime.transactions.seam import EndedTransaction, MarkersListener, TopicPartition

_PARTITIONS_OF_A_STEP = 64
_PARTS_OF_A_STEP = 16
_DOUBLINGS_MAX = 16


@dataclass(slots=True)
class _Coordinated:
    """The transactions without some markers of one partition of `__transaction_state`."""

    endings: dict[EndedTransaction, "_Ending"] = field(default_factory=dict)
    is_over: bool = False
    """Whether the transactions are dropped. There may be very many, so each is found to be over when it is read."""


@dataclass(slots=True, eq=False)
class _Ending:
    """A transaction that gets its markers."""

    ended: EndedTransaction
    listener: MarkersListener
    coordinated: _Coordinated
    left: set[TopicPartition] = field(default_factory=set)
    """The partitions that are not reported as done. Empty until the first route."""
    failures: int = 0
    """Number of attempts since a partition was last done."""
    is_done: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether nothing may be reported any more."""
        return self.is_done or self.coordinated.is_over


_Part = tuple[_Ending, list[TopicPartition]]
"""A transaction, and some of its partitions."""


@dataclass(slots=True)
class _Parts:
    """Parts in order, and the number of their partitions."""

    parts: deque[_Part] = field(default_factory=deque)
    partitions: int = 0

    def append(self, part: _Part) -> None:
        self.parts.append(part)
        self.partitions += len(part[1])

    def put_back(self, part: _Part) -> None:
        """Put a part before all others."""
        self.parts.appendleft(part)
        self.partitions += len(part[1])

    def popleft(self) -> _Part:
        part = self.parts.popleft()
        self.partitions -= len(part[1])
        return part


@dataclass(slots=True)
class _Destination:
    """A broker that leads partitions without a marker."""

    waiting: _Parts = field(default_factory=_Parts)
    is_asked: bool = False
    """Whether a request is under way."""
    failures: int = 0
    not_before_s: float = float("-inf")
    """Time of the next request after one that has failed."""


class MarkerBatch(NamedTuple):
    """The content of one request to a broker: transactions of different producers, and partitions that it leads."""

    broker_id: int
    parts: Sequence[_Part]

    @property
    def markers(self) -> Iterator[tuple[EndedTransaction, Sequence[TopicPartition]]]:
        """Yield each transaction of the batch with its partitions."""
        return ((ending.ended, places) for ending, places in self.parts)


@dataclass(frozen=True, slots=True)
class MarkerLimits:
    """The limits of the dispatch of markers."""

    partitions_max: int
    """Largest number of partitions in one request."""
    retry_s: float
    """The first pause before a marker is sent again. Each further pause is twice as long."""
    retry_max_s: float
    """The longest pause before a marker is sent again."""

    def pause_s(self, failures: int) -> float:
        """Return the pause in seconds after this number of failures in a row, at least one."""
        return min(self.retry_s * (1 << min(failures - 1, _DOUBLINGS_MAX)), self.retry_max_s)


class MarkerQueues:
    """The markers of all transactions that this broker's coordinators end. Nothing is durable.

    Each coordinator sends the markers again after a restart. The number of transactions is that of transactional ids.
    """

    def __init__(self, leader_of: LeaderOf, limits: MarkerLimits) -> None:
        self._leader_of = leader_of
        self._limits = limits
        self._coordinated: dict[int, _Coordinated] = {}
        """The transactions without some markers, by their partition of `__transaction_state`."""
        self._new: deque[_Ending] = deque()
        self._unrouted: deque[_Part] = deque()
        """Partitions whose leader has to be looked up now."""
        self._paused: list[tuple[float, int, bool, _Parts]] = []
        """A heap of partitions whose leader has to be looked up later: time, number, whether no leader was known."""
        self._unknown = 0
        """Number of the partitions in it for which no leader was known."""
        self._numbers = count()
        self._destinations: dict[int, _Destination] = {}
        self._dropped: list[dict[EndedTransaction, _Ending] | deque[TopicPartition]] = []
        """Dropped transactions, and partitions of such: freed in steps, because there may be very many."""

    def send(self, ended: EndedTransaction, listener: MarkersListener) -> None:
        """Queue the markers of a transaction."""
        coordinated = self._coordinated.setdefault(ended.coordinator_partition, _Coordinated())
        coordinated.endings[ended] = ending = _Ending(ended, listener, coordinated)
        self._new.append(ending)

    def drop(self, coordinator_partition: int) -> None:
        """Forget all transactions of a partition of `__transaction_state`."""
        coordinated = self._coordinated.pop(coordinator_partition, None)
        if coordinated is not None:
            coordinated.is_over = True
            self._dropped.append(coordinated.endings)

    @property
    def has_unrouted(self) -> bool:
        """Return whether `route` has something to do, apart from pauses that end."""
        return bool(self._new or self._unrouted or self._dropped)

    def route(self, now_s: float) -> Steps[None]:
        """Look up the leaders of new partitions, and of those whose pause has ended. May not run twice at a time."""
        while self._dropped:
            yield from _free(self._dropped.pop())
        while self._paused and self._paused[0][0] <= now_s:
            _, _, is_unknown, paused = heappop(self._paused)
            self._unknown -= paused.partitions * is_unknown
            while paused.parts:
                self._unrouted.append(paused.parts.popleft())
                yield
        while self._new:
            ending = self._new.popleft()
            if ending.is_over:
                yield
                continue
            # In this order every broker process sends the same requests for the same transactions.
            places = yield from in_order(ending.ended.partitions)
            ending.left = yield from gathered(places)
            self._unrouted.append((ending, places))
        while self._unrouted:
            yield from self._route(self._unrouted.popleft(), now_s)

    def _route(self, part: _Part, now_s: float) -> Steps[None]:
        ending, places = part
        if ending.is_over:
            yield from drain(ending.left)
            yield from let_go(places)
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        deleted = []
        for number, place in enumerate(places, 1):
            leader = self._leader_of(place)
            if leader is None:
                deleted.append(place)
            else:
                by_leader.setdefault(leader, []).append(place)
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield
        for leader, led in by_leader.items():
            if leader == NO_LEADER:
                ending.failures += 1
                self._pause((ending, led), now_s, is_unknown=True)
            else:
                self._destinations.setdefault(leader, _Destination()).waiting.append((ending, led))
        yield from self._are_done(ending, deleted)
        yield

    def _pause(self, part: _Part, now_s: float, *, is_unknown: bool = False) -> None:
        parts = _Parts()
        parts.append(part)
        self._unknown += parts.partitions * is_unknown
        due_s = now_s + self._limits.pause_s(part[0].failures)
        heappush(self._paused, (due_s, next(self._numbers), is_unknown, parts))

    def ready(self, now_s: float) -> list[int]:
        """Return the brokers that may get a request now."""
        return [
            broker_id
            for broker_id, to in self._destinations.items()
            if to.waiting.parts and not to.is_asked and to.not_before_s <= now_s
        ]

    def due_s(self) -> float | None:
        """Return the time at which a pause ends; None without pauses."""
        times = [to.not_before_s for to in self._destinations.values() if to.waiting.parts and not to.is_asked]
        if self._paused:
            times.append(self._paused[0][0])
        return min(times, default=None)

    def take(self, broker_id: int) -> Steps[MarkerBatch | None]:
        """Begin a request to a broker, and return its content; None if nothing is left for the broker.

        The caller must pass the batch to `answered` or `failed` next.
        """
        to = self._destinations[broker_id]
        waiting, room, parts, later = to.waiting, self._limits.partitions_max, list[_Part](), list[_Part]()
        producers = set()
        for number in count(1):
            if not waiting.parts or room <= 0:
                break
            ending, places = waiting.popleft()
            producer_id = ending.ended.marker.producer_id
            if ending.is_over:
                self._dropped.append(deque(places))
            elif producer_id in producers:
                # An answer names only the producer, so that the results of two parts could not be told apart.
                later.append((ending, places))
            else:
                if len(places) > room:
                    waiting.put_back((ending, places[room:]))
                    places = places[:room]
                producers.add(producer_id)
                parts.append((ending, places))
                room -= len(places)
            if number % _PARTS_OF_A_STEP == 0:
                yield
        for part in reversed(later):
            waiting.put_back(part)
        if not parts:
            self._forget_if_idle(broker_id)
            return None
        to.is_asked = True
        return MarkerBatch(broker_id, parts)

    def answered(
        self, batch: MarkerBatch, results: Sequence[Mapping[TopicPartition, int]], now_s: float
    ) -> Steps[Collection[tuple[TopicPartition, int]]]:
        """Apply the error codes of a request: one mapping for each transaction of the batch.

        Returns the partitions with unexpected codes. A partition without a code has UNKNOWN_SERVER_ERROR.
        """
        to = self._destinations[batch.broker_id]
        to.failures = 0
        unexpected: list[tuple[TopicPartition, int]] = []
        for (ending, places), codes in zip(batch.parts, results, strict=True):
            again: list[TopicPartition] = []
            done: list[TopicPartition] = []
            for place in places:
                code = codes.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
                result = result_of(code)
                if result is MarkerResult.DONE:
                    done.append(place)
                else:
                    again.append(place)
                    if result is MarkerResult.UNEXPECTED:
                        unexpected.append((place, code))
            yield from self._are_done(ending, done)
            if again and not ending.is_over:
                ending.failures += 1
                self._pause((ending, again), now_s)
            yield
        to.is_asked = False
        self._forget_if_idle(batch.broker_id)
        return unexpected

    def failed(self, batch: MarkerBatch, now_s: float) -> None:
        """Note that a request got no answer. Its markers may be written or not, so they are sent again."""
        to = self._destinations[batch.broker_id]
        to.is_asked = False
        to.failures += 1
        to.not_before_s = now_s + self._limits.pause_s(to.failures)
        for ending, places in batch.parts:
            if not ending.is_over:
                ending.failures += 1
                self._pause((ending, places), now_s)
        # What waits for the broker is looked up again, too: another broker may lead it by then.
        if to.waiting.parts:
            heappush(self._paused, (to.not_before_s, next(self._numbers), False, to.waiting))
            to.waiting = _Parts()

    def _forget_if_idle(self, broker_id: int) -> None:
        to = self._destinations[broker_id]
        if not (to.waiting.parts or to.is_asked or to.failures):
            del self._destinations[broker_id]

    def _are_done(self, ending: _Ending, places: Iterable[TopicPartition]) -> Steps[None]:
        """Report partitions that need no marker any more."""
        for number, place in enumerate(places, 1):
            if not ending.is_over and place in ending.left:
                ending.failures = 0
                ending.left.remove(place)
                if not ending.left:
                    ending.is_done = True
                    del ending.coordinated.endings[ending.ended]
                ending.listener.partition_done(ending.ended, place)
            if number % _PARTITIONS_OF_A_STEP == 0:
                yield

    @property
    def transactions(self) -> int:
        """Return the number of transactions that have partitions without a marker."""
        return sum(len(each.endings) for each in self._coordinated.values())

    def waiting(self) -> tuple[int, int]:
        """Return the numbers of partitions that wait for a broker and of those without a leader, for metrics."""
        return sum(to.waiting.partitions for to in self._destinations.values()), self._unknown


def _free(dropped: dict[EndedTransaction, _Ending] | deque[TopicPartition]) -> Steps[None]:
    if isinstance(dropped, deque):
        yield from drain(dropped)
        return
    while dropped:
        yield from drain(dropped.popitem()[1].left)
        yield
