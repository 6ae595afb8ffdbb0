"""From what groups have committed and where logs end to their lag by topic. Pure.

What is shown is bounded: so many groups, and so many partitions of all of them together. A group is shown whole or not
at all, and the same ones from look to look.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_runtime.groups.state import CommittedOffsets

Partition = tuple[str, int]
Offsets = Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class LagFigures:
    """As of one look. `by_group` has the records that are left to read, by group and topic."""

    by_group: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    left_out: int = 0
    """Groups with offsets beyond the limits."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the shown groups have committed, taken at one moment for each of them."""

    committed: Mapping[str, Offsets]
    left_out: int

    def partitions(self) -> Iterator[Partition]:
        """One that several groups read comes as often."""
        return chain.from_iterable(self.committed.values())


def sample(shards: "Iterable[CommittedOffsets]", groups_max: int, partitions_max: int) -> Iterator["Sampled | None"]:
    """In steps of one group each, so that its caller may let others have their turn: None, and at last the result."""
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
    """A partition whose end nobody has told counts for nothing, one that was committed beyond its end as 0."""
    lag: dict[str, int] = {}
    for (topic, index), offset in committed.items():
        end = ends.get((topic, index))
        if end is not None:
            lag[topic] = lag.get(topic, 0) + max(0, end - offset)
    return lag


def pages(partitions: Iterable[Partition], size: int) -> Iterator[list[Partition]]:
    rest = iter(partitions)
    while page := list(islice(rest, size)):
        yield page
