"""What a group of the classic protocol may be. Pure."""

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    """The values are the words of ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    """No members; offsets perhaps."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """JoinGroup requests are gathered."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation is there; its leader's assignment is waited for."""
    STABLE = "Stable"
    """The assignment is durable, and every member may have it."""
    DEAD = "Dead"
    """There is no such group here."""


PREVIOUS: Mapping[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}
"""From which states each one may come."""
