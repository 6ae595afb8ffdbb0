"""What a broker coordinates, counted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoordinatorFigures:
    """Of the partitions of __consumer_offsets that this broker leads, how many are in which phase, and what those that
    are active hold."""

    loading: int
    active: int
    failed: int
    groups: int
    offsets: int
