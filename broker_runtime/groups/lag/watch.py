"""Periodically measures the lag of the groups that this broker coordinates, so that a scrape finds ready figures."""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker_runtime.clock import Clock
from broker_runtime.config.keys.groups import LagConfig
from broker_runtime.errors import KafkaError
from broker_runtime.groups.lag.metrics import LagMetrics, Offsets, Partition, Sampled, lag_by_topic, sample

if TYPE_CHECKING:
    from broker_runtime.groups.state import CommittedOffsets

log = logging.getLogger(__name__)


class Ends(Protocol):
    """Reads the ends of partitions' logs, see `log_ends.LogEndReader`."""

    async def of(self, partitions: Iterable[Partition]) -> tuple[dict[Partition, int], list[KafkaError]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LagReading:
    """The shown lag, and the end of the last measurement that all leaders answered (monotonic seconds)."""

    figures: LagMetrics
    whole_at_s: float


class LagWatch:
    """Measures the lag of groups periodically, and keeps the last result in memory.

    If a leader does not answer, the last known ends of its partitions are used, and the measurement is not complete.
    """

    def __init__(
        self, config: LagConfig, clock: Clock, shards: "Callable[[], Iterable[CommittedOffsets]]", ends: Ends
    ) -> None:
        """`shards` returns the committed offsets of the partitions that this broker coordinates and has loaded."""
        self._config = config
        self._clock = clock
        self._shards = shards
        self._ends = ends
        self._known: dict[Partition, int] = {}
        self._trouble = ""
        self.shown = LagReading(LagMetrics(), clock.monotonic())

    async def run(self) -> None:
        """Measure the lag periodically until the task is cancelled. Return immediately if no group is to be shown."""
        while self._config.sluicegate_group_lag_groups_max > 0:
            await asyncio.sleep(self._config.sluicegate_group_lag_interval_ms / 1000)
            await self.poll()

    async def poll(self) -> None:
        sampled = await self._sampled()
        told, errors = await self._ends.of(sampled.partitions())
        ends: Offsets = ChainMap(told, self._known) if errors else told
        by_group: dict[str, dict[str, int]] = {}
        known: dict[Partition, int] = {}
        for group_id, offsets in sampled.committed.items():
            by_group[group_id] = lag_by_topic(offsets, ends)
            known |= {partition: ends[partition] for partition in offsets if partition in ends}
            await asyncio.sleep(0)
        self._known = known
        self._note("; ".join(map(str, errors)))
        whole_at_s = self.shown.whole_at_s if errors else self._clock.monotonic()
        self.shown = LagReading(LagMetrics(by_group, sampled.left_out), whole_at_s)

    def age_s(self) -> float:
        return self._clock.monotonic() - self.shown.whole_at_s

    def close(self) -> None:
        self._ends.close()

    async def _sampled(self) -> Sampled:
        config = self._config
        steps = sample(
            self._shards(), config.sluicegate_group_lag_groups_max, config.sluicegate_group_lag_partitions_max
        )
        for step in steps:
            if step is not None:
                return step
            await asyncio.sleep(0)
        raise AssertionError("a sample has an end")

    def _note(self, trouble: str) -> None:
        """Log each error once, and the recovery once."""
        if trouble != self._trouble:
            log.warning(
                "the lag of groups %s",
                f"is not completely known: {trouble}" if trouble else "is completely known again",
            )
        self._trouble = trouble
