"""The next step in the life of a cluster's own certificates. Pure.

Nodes mount one Secret: the certificate that all of them present, and the authorities that they trust. A new version of
it reaches the nodes one after the other, within a minute or two. So each write follows two rules:

- To trust a further authority is safe at any time.
- Everything else waits until each node has reported that exactly the present version is in force. A certificate of a
  new authority is then presented only to nodes that trust it, and an authority is dropped only when no node presents a
  certificate of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

STEP_S_MIN = 10.0
"""Minimum seconds between two versions of the Secret.

A pod that starts meanwhile may still get the previous version, and is not seen yet.
"""
URGENT_PART = 0.1
"""The last part of a renewal period, as a fraction, in which silent nodes are not waited for."""
TRUSTED_MAX = 8
"""Maximum number of authorities that nodes trust at a time."""
LONGER_S = 3600.0
"""Minimum seconds by which a renewed certificate ends later."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: the digest of its certificate, and the Unix time at which it ends."""

    digest: str
    ends_s: float


@dataclass(frozen=True, slots=True)
class StoredCertificate:
    """The nodes' certificate in their Secret, and the authorities that nodes trust.

    `issuer` is the digest of the authority that has issued `certificate`. `renewal` is the value of the annotation for
    which it was issued. `fits`: it has the names and the subject that nodes need.
    """

    certificate: str
    ends_s: float
    issuer: str
    trusted: frozenset[str]
    renewal: str = ""
    fits: bool = True


@dataclass(frozen=True, slots=True)
class NodeInForce:
    """A node's report about its certificates.

    `in_force` has a pair for each listener: the certificate, and the trusted authorities.

    `silence` is why there is no report, and `problem` why the newest files are not in force.
    """

    name: str
    in_force: frozenset[tuple[str, frozenset[str]]] = frozenset()
    silence: str = ""
    problem: str = ""

    def has(self, current: StoredCertificate) -> bool:
        return self.in_force == {(current.certificate, current.trusted)}


@dataclass(frozen=True, slots=True)
class Terms:
    """The requirements of a cluster's spec.clusterCa on certificates. `generated`: the operator makes the authority.

    `renewal` is the value of the annotation, and `authority_made_for` the value for which the authority was made.
    """

    validity_s: float
    renewal_s: float
    generated: bool = True
    renewal: str = ""
    authority_made_for: str = ""


@dataclass(frozen=True, slots=True)
class MakeAuthority:
    """The step of making a new authority, which nodes do not trust yet."""

    why: str


@dataclass(frozen=True, slots=True)
class Write:
    """The step of writing a new version of the Secret. Without `issue` the certificate stays."""

    trusted: frozenset[str]
    issue: bool
    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No step of a certificate's renewal: everything is as it should be."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """A wait before the next version of a cluster's certificates.

    `nodes` do not have the present version; without them it is too new.
    """

    next: Write
    nodes: tuple[NodeInForce, ...] = field(default=())


Step = MakeAuthority | Write | Nothing
NOTHING = Nothing()


def wanted_step(now_s: float, authority: Authority | None, current: StoredCertificate | None, terms: Terms) -> Step:
    """Return the next step as if all nodes had the present version.

    `authority` issues certificates from now on.
    """
    if authority is None:
        return MakeAuthority("there is no authority yet") if terms.generated else NOTHING
    if current is None:
        return Write(frozenset({authority.digest}), issue=True, why="there is no certificate yet")
    settled = current.issuer == authority.digest and current.trusted == {authority.digest}
    if settled and terms.generated and (why := _why_new_authority(now_s, authority, terms)):
        return MakeAuthority(why)
    if authority.digest not in current.trusted:
        if len(current.trusted) >= TRUSTED_MAX:
            return NOTHING
        return Write(current.trusted | {authority.digest}, issue=False, why="nodes do not trust the new authority yet")
    if why := _why_new_certificate(now_s, authority, current, terms):
        return Write(current.trusted, issue=True, why=why)
    if current.trusted != {authority.digest}:
        return Write(frozenset({authority.digest}), issue=False, why="no node uses the authorities before it any more")
    return NOTHING


def next_step(
    now_s: float, wanted: Write, current: StoredCertificate, since_s: float, nodes: Sequence[NodeInForce], terms: Terms
) -> Write | NotYet:
    """Return `wanted` if the Secret of certificates may be written now, otherwise a wait.

    A new version waits until all nodes use the present one, which the Secret has since `since_s` or longer. A
    certificate that ends soon does not wait.
    """
    if not wanted.issue and wanted.trusted >= current.trusted:
        return wanted
    if wanted.issue and current.ends_s - now_s < URGENT_PART * terms.renewal_s:
        return wanted
    behind = tuple(node for node in nodes if not node.has(current))
    if behind or now_s - since_s < STEP_S_MIN:
        return NotYet(wanted, behind)
    return wanted


def is_urgent(now_s: float, current: StoredCertificate, terms: Terms) -> bool:
    """Return whether the nodes' certificate ends so soon that it should have been renewed."""
    return current.ends_s - now_s < URGENT_PART * terms.renewal_s


def needs_nodes(wanted: Write, current: StoredCertificate | None) -> bool:
    """Return whether the write depends on the nodes' reports."""
    return current is not None and (wanted.issue or not wanted.trusted >= current.trusted)


def _why_new_authority(now_s: float, authority: Authority, terms: Terms) -> str:
    if authority.ends_s - now_s < terms.renewal_s:
        return f"the authority ends in {_days(authority.ends_s - now_s)} days"
    if terms.renewal and terms.renewal != terms.authority_made_for:
        return "the annotation asks for a renewal"
    return ""


def _why_new_certificate(now_s: float, authority: Authority, current: StoredCertificate, terms: Terms) -> str:
    if current.issuer != authority.digest:
        return "another authority has issued the certificate"
    if not current.fits:
        return "the certificate lacks a name or the subject of nodes"
    if terms.renewal and terms.renewal != current.renewal:
        return "the annotation asks for a renewal"
    longer_s = min(now_s + terms.validity_s, authority.ends_s) - current.ends_s
    if current.ends_s - now_s < terms.renewal_s and longer_s >= LONGER_S:
        return f"the certificate ends in {_days(current.ends_s - now_s)} days"
    return ""


def _days(seconds: float) -> int:
    return max(0, int(seconds // 86_400))


def names(nodes: Collection[NodeInForce]) -> str:
    """Return the nodes' names for a sentence."""
    return ", ".join(sorted(node.name for node in nodes))
