"""The ends of logs, with which the coordinator checks the offsets of its consumers. Pure.

A question names a leader epoch (KIP-320). The answer is the offset up to which the log has the records of that epoch
and of earlier ones. For the current epoch, this is the end of the log. For an older epoch, it is the offset at which a
new leader has continued the log. So a truncated log is detected even if it has grown since.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.state.decided import NOTHING, Decided
from broker_runtime.groups.state import GroupsState

Partition = tuple[str, int]
"""A topic's name and the number of a partition."""
Asked = Mapping[Partition, int]
"""Questions about log ends: the leader epoch of each question, by partition."""


class End(NamedTuple):
    """The answer to one question: the log has the records of `leader_epoch` up to `offset`."""

    leader_epoch: int
    offset: int


Ends = Mapping[Partition, End]
"""Answers to questions about log ends. A partition is left out if its leader did not answer."""


class LogEnds(Protocol):
    """The ends of partitions' logs, asked from their leaders.

    Implemented by `groups.shard_environment.ShardEnds`.
    """

    def known_ends(self, asked: Asked) -> tuple[Ends, Asked]:
        """Return the ends in this broker's own logs, and the questions that other leaders have to answer."""
        ...

    def ask_ends(self, asked: Asked, then: Callable[[Ends], GroupTimer]) -> None:
        """Ask the leaders of partitions for the ends of their logs.

        The decision that `then` returns runs next, with the answers that arrived in time.
        """
        ...


Decide = Callable[[Ends, GroupsState], Decided]


def with_ends(ends: LogEnds, asked: Asked, decide: Decide, state: GroupsState) -> Decided:
    """Run `decide` immediately if this broker knows all answers, otherwise when the other leaders have answered."""
    known, others = ends.known_ends(asked)
    if not others:
        return decide(known, state)
    ends.ask_ends(others, lambda told: partial(decide, {**known, **told}))
    return NOTHING
