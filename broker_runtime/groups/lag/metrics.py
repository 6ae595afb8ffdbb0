"""Computes the lag of groups by topic from their committed offsets and the ends of logs. Pure.

The number of groups, and of their partitions together, is limited. A group is shown completely or not at all, and the
same groups are shown each time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_runtime.groups.state import CommittedOffsets

Partition = tuple[str, int]
Offsets = Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class LagMetrics:
    """The lag of groups from one measurement.

    `by_group` has the number of records left to read, by group and topic.
    """

    by_group: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    left_out: int = 0
    """Number of groups with offsets that are left out because of the limits."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The committed offsets of the shown groups, each group at one moment."""

    committed: Mapping[str, Offsets]
    left_out: int

    def partitions(self) -> Iterator[Partition]:
        """Yield all partitions with committed offsets.

        A partition that several groups read occurs once for each of them.
        """
        return chain.from_iterable(self.committed.values())


def sample(shards: "Iterable[CommittedOffsets]", groups_max: int, partitions_max: int) -> Iterator["Sampled | None"]:
    """Read the committed offsets of one group in each step, so that the event loop can run in between.

    Yields None after each step, and the result at the end.
    """
    committed: dict[str, Offsets] = {}
    left_out, partitions = 0, 0
    for shard in shards:
        for group_id in shard.groups():
            found = shard.of(group_id)
            if not found:
                continue  # Gone since the first step.
            if len(committed) >= groups_max or partitions + len(found) > partitions_max:
                left_out += 1
                continue
            committed[group_id] = {partition: value.offset for partition, value in found.items()}
            partitions += len(found)
            yield None
    yield Sampled(committed, left_out)


def lag_by_topic(committed: Offsets, ends: Offsets) -> dict[str, int]:
    """Return the number of records that a group has yet to read, by topic.

    A partition with an unknown end is left out. An offset beyond the end counts as a lag of 0.
    """
    lag: dict[str, int] = {}
    for (topic, index), offset in committed.items():
        end = ends.get((topic, index))
        if end is not None:
            lag[topic] = lag.get(topic, 0) + max(0, end - offset)
    return lag
