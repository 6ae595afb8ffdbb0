"""The states of a group of the classic protocol, and the transitions between them. Pure."""

from collections.abc import Mapping
from enum import Enum


class ClassicState(Enum):
    """The state of a classic group. The values are those of ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    """The group has no members. The group may have offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The coordinator gathers JoinGroup requests."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has started and waits for its leader's assignment."""
    STABLE = "Stable"
    """The assignment is durable, and each member may get its part of the assignment."""
    DEAD = "Dead"
    """The group does not exist here."""


PREVIOUS: Mapping[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}
"""The states from which each state may be entered."""
