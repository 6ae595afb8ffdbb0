"""Figures of the group coordinator of a broker."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoordinatorMetrics:
    """Numbers of the led partitions of __consumer_offsets by phase, and of groups and offsets in the active ones."""

    loading: int
    active: int
    failed: int
    groups: int
    offsets: int
