"""What the coordinators of a broker have done and how many groups they have, for metrics."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from broker_runtime.groups.kinds import GroupType

if TYPE_CHECKING:
    from broker_runtime.groups.state import GroupsState

_LOOK_INTERVAL_S = 5.0
_IN_A_ROW_MAX = 50
"""To tell the state of a large group of KIP-848 takes a look at all of its members."""


class Loss(Enum):
    """Why a consumer of the push protocol is no longer registered; the values are those of a metric's label."""

    CLOSED = "closed"
    """Its connection has ended: it shut down, or broke."""
    SILENT = "silent"
    """It left pings unanswered, or did not come back after a fail-over."""
    STUCK = "stuck"
    """It answered pings, and neither stopped nor started when it was told to."""
    WRONG = "wrong"
    """It said that it has failed, or answered what it was not asked."""


@dataclass(slots=True)
class PushTally:
    """Of the groups that are called by their coordinator."""

    rebalances: int = 0
    """That were completed."""
    rebalance_s: float = 0.0
    """What they took together, from the plan to the last consumer's start."""
    failed_rebalances: int = 0
    """ConsumerRebalanceFailed: those that went on without consumers which did not stop or start."""
    pings: int = 0
    unanswered_pings: int = 0
    """Not within two thirds of a session."""
    losses: Counter[Loss] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """What was decided here and how long loads took, since this process began."""

    offset_commits: int = 0
    offset_deletions: int = 0
    offset_expirations: int = 0
    classic_rebalances: int = 0
    """Generations that were completed."""
    consumer_rebalances: int = 0
    """Epochs of groups of KIP-848."""
    failures: int = 0
    """Terms that ended by themselves, other than with the leadership."""
    loads: int = 0
    load_ms: float = 0.0
    load_max_ms: float = 0.0
    push: PushTally = field(default_factory=PushTally)

    def loaded(self, took_s: float) -> None:
        self.loads += 1
        self.load_ms += took_s * 1000
        self.load_max_ms = max(self.load_max_ms, took_s * 1000)


Counts = Mapping[tuple[GroupType, str], int]
"""Groups by type and state."""


class Census:
    """Owns the number of groups by type and state, as of a look at all of them that took many turns."""

    def __init__(self, states: "Callable[[], Iterable[GroupsState]]") -> None:
        """`states` are those of partitions that are loaded."""
        self._states = states
        self.groups: Counts = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_INTERVAL_S)

    async def look(self) -> None:
        found: Counter[tuple[GroupType, str]] = Counter()
        for state in list(self._states()):
            for number, group in enumerate(list(state.groups.values()), 1):
                found[group.type, group.state_name] += 1
                if number % _IN_A_ROW_MAX == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.groups = found
