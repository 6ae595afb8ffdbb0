"""Reports to the audit log which partitions this broker has: all of them from time to time, and each change soon.

Runs on the event loop, some partitions in each time slice. Every few seconds all partitions are compared with those
reported last.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Protocol

from broker_runtime.clock import Clock, Timer
from broker_runtime.observers.surroundings import HostedPartition

_PARTITIONS_PER_SLICE: Final = 100
"""Partitions compared in one iteration of the event loop."""
_PAUSE_S: Final = 0.01
_LOOK_S: Final = 5.0
"""Time between two comparisons, in seconds."""

Place = tuple[str, int]
"""A partition: topic and number."""


class InventoryLog(Protocol):
    """The part of the audit log that records partitions."""

    def inventory(
        self, partition: HostedPartition, registered_brokers: str | None, *, is_deleted: bool = False
    ) -> None: ...


class Inventory:
    """Reports all partitions at the start, every `every_s`, and when the registered brokers change.

    In between, Inventory reports partitions that are new, that are deleted, or whose leadership has changed. Without
    these it reports one partition every `alive_s`, so that the log of a broker without clients shows that the broker
    runs. `partitions` and `registered_brokers` are those of BrokerFacts.
    """

    def __init__(
        self,
        log: InventoryLog,
        partitions: Callable[[], Iterable[HostedPartition]],
        registered_brokers: Callable[[], Iterable[int]],
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], Timer],
        every_s: float,
        alive_s: float,
    ) -> None:
        self._log = log
        self._partitions = partitions
        self._registered_brokers = registered_brokers
        self._clock = clock
        self._call_later = call_later
        self._every_s = every_s
        self._alive_s = alive_s
        self._told: dict[Place, bool] = {}
        """Whether this broker leads the partition, by the last report."""
        self._brokers = ""
        self._told_all_s: float | None = None
        self._told_s = 0.0
        """Time at which a partition was last reported, in seconds."""
        self._timer: Timer | None = None

    def look(self) -> None:
        """Check all partitions, report new and changed ones, and repeat this periodically."""
        brokers, now_s = ",".join(map(str, sorted(self._registered_brokers()))), self._clock.monotonic()
        is_due = self._told_all_s is None or now_s - self._told_all_s >= self._every_s
        if is_all := is_due or brokers != self._brokers:
            self._told_all_s, self._brokers = now_s, brokers
        self._slice(iter(self._partitions()), set(), is_all=is_all)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _slice(self, left: Iterator[HostedPartition], seen: set[Place], *, is_all: bool) -> None:
        checked = list(islice(left, _PARTITIONS_PER_SLICE))
        for partition in checked:
            place = partition.topic, partition.partition
            seen.add(place)
            is_quiet = self._clock.monotonic() - self._told_s >= self._alive_s
            if is_all or is_quiet or self._told.get(place) is not partition.is_leader:
                self._told[place] = partition.is_leader
                self._told_s = self._clock.monotonic()
                self._log.inventory(partition, self._brokers or None)
        if len(checked) == _PARTITIONS_PER_SLICE:
            self._timer = self._call_later(_PAUSE_S, lambda: self._slice(left, seen, is_all=is_all))
            return
        for place in sorted(self._told.keys() - seen):
            del self._told[place]
            self._log.inventory(HostedPartition(*place, 0, 0, 0, False), self._brokers or None, is_deleted=True)
        self._timer = self._call_later(min(_LOOK_S, self._every_s, self._alive_s), self.look)
