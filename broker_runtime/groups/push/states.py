"""The states of a push group, and the states that tools see. `rebalance` has the transitions. Pure data."""

from collections.abc import Mapping
from enum import Enum


class PushState(Enum):
    """The states of a push group. The values say what the group waits for."""

    GATHERING = "after a fail-over: known consumers, to register again or to be given up"
    STABLE = "nothing: what is owned is `PushGroup.ownership`"
    PLANNING = "a thread that computes who is to own what; fetchers run as before, or all have stopped"
    STOPPING = "answers to StopFetcher"
    CHECKING = "other leaders, to say where the logs end that consumers are to read"
    STARTING = "answers to StartFetcher"
    BACKING_OFF = "the time between two attempts: somebody did not answer"


SHOWN: Mapping[PushState, str] = {
    PushState.GATHERING: "PreparingRebalance",
    PushState.STABLE: "Stable",
    PushState.PLANNING: "PreparingRebalance",
    PushState.STOPPING: "PreparingRebalance",
    PushState.CHECKING: "PreparingRebalance",
    PushState.STARTING: "CompletingRebalance",
    PushState.BACKING_OFF: "PreparingRebalance",
}
"""The states as ListGroups shows them: those of classic groups, because tools see push groups as classic ones."""
