"""A group of a simulated cluster: as many members as it shall have, each of which lives for a while."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster.classic_member import ClassicMember
from tests.simulation.cluster.member import Around, Member
from tests.simulation.cluster.modern_member import ModernMember
from tests.simulation.cluster.ownership import Ownership

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.connection import ClusterView

TOPIC, PARTITIONS = "shared", 5
_MEMBERS = 3
KINDS: dict[str, tuple[type[Member], ...]] = {
    "classic": (ClassicMember,),
    "modern": (ModernMember,),
    "mixed": (ClassicMember, ModernMember),
}
"""What a life may be: members of a mixed group come back with either protocol."""
_STATIC = 1
"""So many of the members are static."""


class Group:
    def __init__(self, cluster: "Cluster", kind: str) -> None:
        self.name = f"group-{kind}"
        self.ownership = Ownership(self.name, cluster.loop.time, cluster.around.mistake)
        self._settled = False
        self._cluster = cluster
        self._kinds = KINDS[kind]
        self._around = Around(cluster.loop.time, cluster.note, cluster.partitions_of_groups)
        self._lives = 0
        self._alive: list[Member] = []

    def start(self) -> None:
        for number in range(_MEMBERS):
            owner, view = self._cluster.client(f"{self.name}-{number}")
            self._cluster.run_as(owner, self._lives_of(number, view))

    async def _lives_of(self, number: int, view: "ClusterView") -> None:
        rng, now = view.random, self._cluster.loop.time
        while True:
            self._lives += 1
            name = f"{self.name}-{number}#{self._lives}"
            kind = rng.choice(self._kinds)
            instance = f"{self.name}-{number}" if number < _STATIC else None
            member = kind(name, self.ownership, TOPIC, view, self._around, instance)
            if len(self._kinds) > 1:
                self._cluster.note(f"{name} is a {kind.__name__}")
            self._alive.append(member)
            ends_s = now() + rng.choice((rng.uniform(1.0, 6.0), rng.uniform(4.0, 20.0)))
            leaves = rng.random() < 0.5
            await member.live(partial(self._is_over, ends_s), leaves=leaves)
            self._cluster.note(f"{name} {'leaves' if leaves else 'is gone'}")
            self._alive.remove(member)
            await asyncio.sleep(rng.uniform(0.0, 1.0))

    def _is_over(self, ends_s: float) -> bool:
        return not self._settled and self._cluster.loop.time() >= ends_s

    def settle(self) -> None:
        """Members live on from now on, and commit no more."""
        self._settled = True

    def has_converged(self) -> bool | str:
        """Every partition is owned by a member that lives, all of them are in one generation or epoch, and all take
        part."""
        for member in self._alive:
            member.quiet = True
        holders = self.ownership.holders()
        names = {member.owner for member in self._alive}
        if (
            set(holders) != set(range(self._around.partitions()))
            or not {held.member for held in holders.values()} <= names
        ):
            return f"{self.name} shares {sorted((index, held.member) for index, held in holders.items())}"
        terms = {member.epoch for member in self._alive}
        if len(terms) != 1 or len(self._alive) != _MEMBERS or not all(member.owned for member in self._alive):
            return f"{self.name} has members in {[(member.name, member.term) for member in self._alive]}"
        return True
