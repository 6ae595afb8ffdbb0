"""Virtual time for a cluster's certificates: an operator that may end, nodes that see each version at another time."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from sluicegate_operator.planning.certificates.renewal import (
    STEP_S_MIN,
    Authority,
    MakeAuthority,
    NodeInForce,
    Nothing,
    NotYet,
    StoredCertificate,
    Terms,
    Write,
    needs_nodes,
    next_step,
    wanted_step,
)

DAY_S = 86_400.0
MINUTE_S = 60.0
AWAY_S_MAX = 6 * 3600.0
"""Most seconds for which a node is down."""

Decide = Callable[..., Write | NotYet]


class RefusedError(AssertionError):
    """A node meets a certificate that it does not trust, or that has ended."""


@dataclass(slots=True)
class Node:
    """A node: the version in its files, and the one in force; None while its process is down."""

    name: str
    files: int
    in_force: int | None = None
    back_at_s: float = 0.0
    cut_off: bool = False
    """Whether the node's kubelet brings no files while its process is down."""


@dataclass(slots=True)
class RenewalWorld:
    """The simulated world of a renewal: the Secrets' versions, the nodes and the clock.

    `decide` is what the operator asks before it writes.
    """

    seed: int
    terms: Terms
    decide: Decide = next_step
    now_s: float = 0.0
    authority: Authority | None = None
    made_for: str = ""
    renewal: str = ""
    versions: list[StoredCertificate] = field(default_factory=list)
    written_at_s: list[float] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    authorities_made: int = 0
    since_s: float = 0.0
    """When the operator that runs now has first seen the newest version."""
    chance: random.Random = field(init=False)
    _names: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        while not self.versions:
            self.operate()
        self.nodes = [Node(f"node-{n}", 0, 0) for n in range(4)]

    @property
    def is_settled(self) -> bool:
        last = len(self.versions) - 1
        nodes = all(node.in_force == last for node in self.nodes)
        return nodes and isinstance(self._wanted(), Nothing)

    def run_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            quiet = self.is_settled
            self.now_s += self.chance.uniform(DAY_S, 5 * DAY_S) if quiet else self.chance.uniform(1, 40)
            moves = [self.operate, *[lambda node=node: self._live(node) for node in list(self.nodes)]]
            self.chance.shuffle(moves)
            for move in moves:
                move()
                self.check()
            if self.chance.random() < 0.02:
                self.since_s = self.now_s  # Another operator leads now.

    def check(self) -> None:
        """Assert that nodes and operator accept each other's certificates."""
        seen = {self.versions[node.in_force] for node in self.nodes if node.in_force is not None}
        seen.add(self.versions[-1])
        for one in seen:
            if one.ends_s <= self.now_s:
                raise RefusedError(f"a certificate has ended at {one.ends_s}, now {self.now_s}")
            for other in seen:
                if one.issuer not in other.trusted:
                    raise RefusedError(
                        f"a node trusts {sorted(other.trusted)}, and meets a certificate of {one.issuer}"
                    )

    # -- nodes -------------------------------------------------------------------------------------------------

    def _live(self, node: Node) -> None:
        newest, chance = len(self.versions) - 1, self.chance
        if chance.random() < 0.3 and not node.cut_off:
            # The kubelet skips versions that it has not seen.
            node.files = chance.randint(node.files, newest)
        if node.in_force is None:
            if self.now_s >= node.back_at_s:
                node.in_force, node.cut_off = node.files, False
        elif chance.random() < 0.3:
            self._reload(node)
        if chance.random() < 0.01:
            node.in_force, node.back_at_s = None, self.now_s + chance.uniform(1, chance.choice([60, AWAY_S_MAX]))
            node.cut_off = chance.random() < 0.5
        elif chance.random() < 0.01:
            self._replace(node)

    def _reload(self, node: Node) -> None:
        """Use the files, by the broker's own rule: connections between old and new must be possible."""
        assert node.in_force is not None
        now, new = self.versions[node.in_force], self.versions[node.files]
        if now.issuer not in new.trusted or new.issuer not in now.trusted:
            raise RefusedError(f"{node.name} refuses the files of version {node.files} after {node.in_force}")
        node.in_force = node.files

    def _replace(self, node: Node) -> None:
        """Replace the pod. Its kubelet may lag behind a write by less than STEP_S_MIN."""
        newest = len(self.versions) - 1
        lags = newest > 0 and self.now_s - self.written_at_s[newest] < STEP_S_MIN and self.chance.random() < 0.5
        node.files = newest - 1 if lags else newest
        node.in_force, node.back_at_s = None, self.now_s + self.chance.uniform(1, 30)

    # -- the operator ------------------------------------------------------------------------------------------

    def _terms(self) -> Terms:
        given = self.terms
        return Terms(given.validity_s, given.renewal_s, given.generated, self.renewal, self.made_for)

    def _wanted(self) -> "MakeAuthority | Write | Nothing":
        return wanted_step(self.now_s, self.authority, self.versions[-1] if self.versions else None, self._terms())

    def operate(self) -> None:
        if self.chance.random() < 0.5:
            return
        step = self._wanted()
        if isinstance(step, MakeAuthority):
            self.authorities_made += 1
            self.authority = Authority(f"authority-{self.authorities_made}", self.now_s + self.terms.validity_s)
            self.made_for = self.renewal
        elif isinstance(step, Write):
            self._write(step)

    def _write(self, step: Write) -> None:
        current = self.versions[-1] if self.versions else None
        if current is not None:
            nodes = [self._report(node) for node in self.nodes] if needs_nodes(step, current) else []
            if isinstance(self.decide(self.now_s, step, current, self.since_s, nodes, self._terms()), NotYet):
                return
        assert self.authority is not None
        certificate, ends_s, issuer, renewal = f"certificate-{next(self._names)}", 0.0, self.authority.digest, ""
        if step.issue:
            ends_s, renewal = min(self.now_s + self.terms.validity_s, self.authority.ends_s), self.renewal
        else:
            assert current is not None
            certificate, ends_s, issuer, renewal = current.certificate, current.ends_s, current.issuer, current.renewal
        self.versions.append(StoredCertificate(certificate, ends_s, issuer, step.trusted, renewal))
        self.written_at_s.append(self.now_s)
        self.since_s = self.now_s

    def _report(self, node: Node) -> NodeInForce:
        if node.in_force is None:
            return NodeInForce(node.name, silence="down")
        current = self.versions[node.in_force]
        return NodeInForce(node.name, frozenset({(current.certificate, current.trusted)}))
