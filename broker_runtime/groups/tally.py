"""Figures of the coordinators of a broker, for metrics: counters of what they have done, and numbers of groups."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from broker_runtime.coordination.term_tally import TermTally
from broker_runtime.groups.kinds import GroupType
from broker_runtime.groups.members_room import MembersRoom

if TYPE_CHECKING:
    from broker_runtime.groups.state import GroupsState

_LOOK_INTERVAL_S = 5.0
_IN_A_ROW_MAX = 50
"""Groups counted without a break: the state of a large KIP-848 group is computed from all of its members."""


class Loss(Enum):
    """The reason why a consumer of the push protocol lost its registration.

    The values are those of a metric's label.
    """

    CLOSED = "closed"
    """The consumer's connection has ended: the consumer shut down, or the connection broke."""
    SILENT = "silent"
    """The consumer left pings unanswered, or did not register again after a fail-over."""
    STUCK = "stuck"
    """The consumer answered pings, but did not answer a StopFetcher or StartFetcher."""
    WRONG = "wrong"
    """The consumer reported an error, or sent an answer to a call that was not made."""


@dataclass(slots=True)
class PushTally:
    """Counters of events of push groups, such as rebalances and pings."""

    rebalances: int = 0
    """Number of completed rebalances."""
    rebalance_s: float = 0.0
    """Total duration of these rebalances, from the plan to the last consumer's start."""
    failed_rebalances: int = 0
    """Number of rebalances that continued without consumers which did not stop or start.

    Each of them is a ConsumerRebalanceFailed.
    """
    pings: int = 0
    unanswered_pings: int = 0
    """Number of pings without an answer within two thirds of a session."""
    losses: Counter[Loss] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally(TermTally):
    """Counters of terms and of decisions since the start of this process."""

    offset_commits: int = 0
    offset_deletions: int = 0
    offset_expirations: int = 0
    classic_rebalances: int = 0
    """Number of completed generations of classic groups."""
    consumer_rebalances: int = 0
    """Number of new epochs of KIP-848 groups."""
    push: PushTally = field(default_factory=PushTally)


@dataclass(frozen=True, slots=True)
class CoordinatorMetrics:
    """Numbers of the led partitions of __consumer_offsets by phase, and of groups and offsets in the active ones."""

    loading: int
    active: int
    failed: int
    groups: int
    offsets: int


Counts = Mapping[tuple[GroupType, str], int]
"""Number of groups by type and state."""


class Census:
    """Counts groups by type and state. Each count takes many iterations of the event loop."""

    def __init__(
        self, states: "Callable[[], Iterable[GroupsState]]", room: Callable[[], MembersRoom] = MembersRoom
    ) -> None:
        """Create the counters.

        `states` returns the states of all loaded partitions, and `room` counts the bytes of their members.
        """
        self._states = states
        self._room = room
        self.groups: Counts = {}

    async def run(self) -> None:
        """Count the groups periodically until the task is cancelled."""
        while True:
            await self.count()
            await asyncio.sleep(_LOOK_INTERVAL_S)

    async def count(self) -> None:
        found: Counter[tuple[GroupType, str]] = Counter()
        room, size = self._room(), 0
        room.begin_count()
        for state in list(self._states()):
            for number, group in enumerate(list(state.groups.values()), 1):
                found[group.type, group.state_name] += 1
                size += room.measure(group)
                if number % _IN_A_ROW_MAX == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.groups = found
        room.end_count(size)
