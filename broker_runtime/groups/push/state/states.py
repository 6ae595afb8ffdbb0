"""The states of a push group, and the states that tools see. `rebalance` has the transitions. Pure data."""

from collections.abc import Mapping
from enum import Enum


class PushState(Enum):
    """The state of a push group. The values say what the group waits for."""

    GATHERING = "after a failover: until known consumers register again or are removed"
    STABLE = "nothing: `PushGroup.ownership` has the owners of partitions"
    PLANNING = "a thread that computes the owners of partitions; fetchers run as before, or all have stopped"
    STOPPING = "answers to StopFetcher"
    CHECKING = "responses of other leaders with the log end offsets of the partitions to read"
    STARTING = "answers to StartFetcher"
    BACKING_OFF = "the time between two attempts, after a consumer did not respond"


SHOWN: Mapping[PushState, str] = {
    PushState.GATHERING: "PreparingRebalance",
    PushState.STABLE: "Stable",
    PushState.PLANNING: "PreparingRebalance",
    PushState.STOPPING: "PreparingRebalance",
    PushState.CHECKING: "PreparingRebalance",
    PushState.STARTING: "CompletingRebalance",
    PushState.BACKING_OFF: "PreparingRebalance",
}
"""The state of a push group that ListGroups shows: that of a classic group, because tools see the group as one."""
