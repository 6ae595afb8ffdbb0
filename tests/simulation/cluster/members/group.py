"""A group of a simulated cluster: a given number of members, each of which lives for a while."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster.members.classic_member import ClassicMember
from tests.simulation.cluster.members.member import Around, Member
from tests.simulation.cluster.members.modern_member import ModernMember
from tests.simulation.cluster.members.ownership import Ownership
from tests.simulation.cluster.members.push_member import PushMember

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.connection import ClusterView
    from tests.simulation.cluster.machine.loop import Owner

TOPIC, PARTITIONS = "shared", 5
_MEMBERS = 3
KINDS: dict[str, tuple[type[Member], ...]] = {
    "classic": (ClassicMember,),
    "modern": (ModernMember,),
    "mixed": (ClassicMember, ModernMember),
    "push": (PushMember,),
    "moving": (PushMember, ClassicMember, ModernMember),
}
"""Kinds of members in a group.

Members of a mixed group return with either protocol; those of a moving one all have the same, which changes.
"""
_MOVING = "moving"
_CONVERGES_S = 30.0
"""Time-out of convergence after faults have ended and all replicas are in sync.

A coordinator may then wait for four thirds of a session, and for two thirds of one and a pause with each attempt to
rebalance.
"""
_STATIC = 1
"""Number of static members."""


class Group:
    def __init__(self, cluster: "Cluster", kind: str) -> None:
        self.name = f"group-{kind}"
        self.ownership = Ownership(self.name, cluster.loop.time, cluster.around.mistake)
        self._settled = False
        self._asked_s = 0.0
        """Time of the first check whether it has converged."""
        self._cluster = cluster
        self._kinds = KINDS[kind]
        self._around = Around(cluster.loop.time, cluster.note, cluster.partitions_of_groups, cluster.moments.tell)
        self._chosen = self._kinds[0] if kind == _MOVING else None
        """The kind of all members, if they must have the same."""
        self.owners: list[Owner] = []
        """Owners of the hosts of the group's members."""
        self._lives = 0
        self._alive: list[Member] = []

    def start(self) -> None:
        for number in range(_MEMBERS):
            owner, view = self._cluster.client(f"{self.name}-{number}")
            self.owners.append(owner)
            self._cluster.run_as(owner, self._lives_of(number, view))
        if self._chosen is not None:
            owner, view = self._cluster.client(f"{self.name}-mover")
            self._cluster.run_as(owner, self._move(view))

    async def _move(self, view: "ClusterView") -> None:
        while True:
            await asyncio.sleep(view.random.uniform(3.0, 9.0))
            if self._settled:
                return
            self._chosen = view.random.choice(self._kinds)
            self._cluster.note(f"{self.name} is to have members of {self._chosen.__name__}")

    async def _lives_of(self, number: int, view: "ClusterView") -> None:
        rng, now = view.random, self._cluster.loop.time
        while True:
            self._lives += 1
            name = f"{self.name}-{number}#{self._lives}"
            kind = self._chosen or rng.choice(self._kinds)
            is_static = number < _STATIC and PushMember not in self._kinds
            instance = f"{self.name}-{number}" if is_static else None
            member = kind(name, self.ownership, TOPIC, view, self._around, instance)
            if len(self._kinds) > 1:
                self._cluster.note(f"{name} is a {kind.__name__}")
            self._alive.append(member)
            ends_s = now() + rng.choice((rng.uniform(1.0, 6.0), rng.uniform(4.0, 20.0)))
            leaves = rng.random() < 0.5
            await member.live(partial(self._is_over, ends_s, kind), leaves=leaves)
            self._cluster.note(f"{name} {'leaves' if leaves else 'is gone'}")
            self._alive.remove(member)
            await asyncio.sleep(rng.uniform(0.0, 1.0))

    def _is_over(self, ends_s: float, kind: type[Member]) -> bool:
        if self._chosen not in (None, kind):
            return True
        return not self._settled and self._cluster.loop.time() >= ends_s

    def settle(self) -> None:
        """Let members live on from now on, without further commits."""
        self._settled = True

    def has_converged(self) -> bool | str:
        """Whether the group has converged; call it once the faults have ended.

        Every partition is owned by a live member, all members are in one generation or epoch, and all take part.
        """
        self._asked_s = self._asked_s or self._cluster.loop.time()
        missing = self._what_is_missing()
        if missing and self._cluster.loop.time() > self._asked_s + _CONVERGES_S:
            self._cluster.around.mistake(f"{self.name} has not converged in {_CONVERGES_S:g} s: {missing}")
            self._asked_s = float("inf")
        return missing or True

    def _what_is_missing(self) -> str:
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
        return ""
