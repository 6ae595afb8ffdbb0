"""The states of a push group, and how tools are told of them. `rebalance` makes the changes between them. Pure data."""

from collections.abc import Mapping
from enum import Enum


class PushState(Enum):
    """The values say what is waited for."""

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
"""In the words of ListGroups: those of classic groups, as which tools see groups of this protocol."""
