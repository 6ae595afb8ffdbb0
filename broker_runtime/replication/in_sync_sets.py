"""Maintains the in-sync sets of the partitions that this broker leads, through the controller.

One task, one request at a time. What the controller does not accept at once is requested again with growing pauses,
until the metadata has a newer state of the partition.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from broker_runtime.clock import Clock
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication import isr_changes
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.peer import Controller
from broker_runtime.replication.wanted_isr import wanted_change

log = logging.getLogger(__name__)

_CHECK_S_MAX = 1.0
_JOIN_CHECK_S = 0.05
"""Interval of the checks for followers that have caught up and may rejoin the in-sync set, in seconds."""
_LOOKED_AT_PER_SLICE = 200
"""Limit for one iteration of the event loop: a broker may lead thousands of partitions."""


@dataclass(frozen=True, slots=True)
class InSyncSettings:
    """Settings of `InSyncSets`, with times in seconds.

    They are this broker's id, the maximum lag of a follower in sync, and the longest pause after a refusal.
    """

    broker_id: int
    lag_max_s: float
    backoff_max_s: float


@dataclass(slots=True)
class IsrCounts:
    """Counts of how often replicas left and joined in-sync sets since the process started."""

    shrinks: int = 0
    expands: int = 0


@dataclass(slots=True)
class _Asked:
    """The requests for a partition in one of its states."""

    partition_epoch: int
    backoff: Backoff
    not_before_s: float = 0.0


class InSyncSets:
    """Proposes in-sync sets to the controller, which decides.

    A set changes here only when the metadata changes.
    """

    def __init__(
        self,
        settings: InSyncSettings,
        clock: Clock,
        image: MetadataImage,
        led: Mapping[tuple[str, int], LeaderReplica],
        broker_epoch: Callable[[], int],
    ) -> None:
        """`led` has the partitions that this broker leads now."""
        self.counts = IsrCounts()
        self._settings = settings
        self._clock = clock
        self._image = image
        self._led = led
        self._broker_epoch = broker_epoch
        self._asked: dict[LeaderReplica, _Asked] = {}
        self._controller_backoff = Backoff(settings.backoff_max_s)

    async def keep(self, controller: Controller) -> None:
        """Keep the in-sync sets of led partitions current until cancelled."""
        full_check_s = min(self._settings.lag_max_s / 2, _CHECK_S_MAX)
        due_s = self._clock.monotonic()
        while True:
            await asyncio.sleep(min(full_check_s, _JOIN_CHECK_S))
            now_s = self._clock.monotonic()
            # Check often for followers that may join, and less often for those that must leave.
            looked_at = [leader for leader in self._led.values() if len(leader.isr) != len(leader.replicas)]
            if now_s >= due_s:
                looked_at, due_s = list(self._led.values()), now_s + full_check_s
            self._forget_answered()
            for start in range(0, len(looked_at), _LOOKED_AT_PER_SLICE):
                if start:
                    await asyncio.sleep(0)
                self._begin_changes(looked_at[start : start + _LOOKED_AT_PER_SLICE], now_s)
            pending = [
                leader for leader in self._led.values() if leader.pending is not None and self._due(leader, now_s)
            ]
            if pending:
                await self._send(controller, pending[: isr_changes.PARTITIONS_PER_REQUEST])

    def _due(self, leader: LeaderReplica, now_s: float) -> bool:
        asked = self._asked.get(leader)
        return asked is None or asked.not_before_s <= now_s

    def _forget_answered(self) -> None:
        """Forget requests for partitions that have a newer state in the metadata, or another leader."""
        for leader, asked in list(self._asked.items()):
            if leader.leader_epoch < 0 or leader.partition_epoch != asked.partition_epoch:
                del self._asked[leader]

    def _begin_changes(self, leaders: Iterable[LeaderReplica], now_s: float) -> None:
        epoch = self._broker_epoch()
        for leader in leaders:
            if leader.leader_epoch < 0:
                # The leader has resigned since the round began.
                continue
            change = wanted_change(leader, self._image.brokers, now_s, self._settings.lag_max_s, epoch)
            if change is not None and self._due(leader, now_s):
                self.counts.shrinks += len(change.isr) < len(leader.isr)
                self.counts.expands += len(change.isr) > len(leader.isr)
                leader.begin(change)

    async def _send(self, controller: Controller, pending: list[LeaderReplica]) -> None:
        backoff = self._controller_backoff
        try:
            refused = await isr_changes.send(controller, self._settings.broker_id, self._broker_epoch(), pending)
        except KafkaError as error:
            if backoff.is_news(str(error)):
                log.warning("in-sync sets cannot be changed; retrying: %s", error)
            await asyncio.sleep(backoff.failed())
            return
        backoff.succeeded()
        now_s = self._clock.monotonic()
        for leader in pending:
            asked = self._asked.get(leader)
            if asked is None:
                asked = self._asked[leader] = _Asked(leader.partition_epoch, Backoff(self._settings.backoff_max_s))
            asked.not_before_s = now_s + asked.backoff.failed()
            why = refused.get(leader)
            if why is not None and asked.backoff.is_news(why):
                log.info("%s-%d: the in-sync set was not changed: %s", leader.topic, leader.index, why)
