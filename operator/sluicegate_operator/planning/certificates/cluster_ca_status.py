"""The condition CertificatesCurrent of a cluster with spec.clusterCa, and the part of its status. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sluicegate_operator.api.models.parts.cluster_ca import ClusterCaStatus
from sluicegate_operator.planning.certificates.renewal import NodeInForce
from sluicegate_operator.planning.status.conditions import Finding

CERTIFICATES_CURRENT = "CertificatesCurrent"
RENEWING, NODES_BEHIND, NOT_RENEWED = "Renewing", "NodesBehind", "CertificateEnding"
_NODES_NAMED_MAX = 3
_MESSAGE_MAX = 2048


@dataclass(frozen=True, slots=True)
class CertificatesSeen:
    """The state of a cluster's own certificates.

    `usable`: the Secret of the nodes exists, so nodes may start. `problem` is a sentence, with its `reason`, about what
    prevents a renewal. `waiting` are nodes that do not have the newest files; `under_way`: a renewal has not ended.
    """

    usable: bool = False
    authority_ends_s: float | None = None
    certificate_ends_s: float | None = None
    problem: str = ""
    reason: str = ""
    under_way: bool = False
    waiting: Sequence[NodeInForce] = ()
    ending: bool = False
    """Whether the nodes' certificate ends so soon that it should have been renewed."""

    @property
    def settled(self) -> bool:
        return self.usable and not self.problem and not self.under_way


def certificates_finding(seen: CertificatesSeen) -> Finding:
    """Return the condition CertificatesCurrent of a cluster's status."""
    if seen.problem:
        return Finding(CERTIFICATES_CURRENT, False, seen.reason, seen.problem[:_MESSAGE_MAX])
    if seen.ending:
        ends = _time(seen.certificate_ends_s)
        told = f": {_behind(seen.waiting)}" if seen.waiting else ""
        return Finding(CERTIFICATES_CURRENT, False, NOT_RENEWED, f"the certificate of nodes ends at {ends}{told}")
    if seen.waiting:
        return Finding(CERTIFICATES_CURRENT, False, NODES_BEHIND, _behind(seen.waiting)[:_MESSAGE_MAX])
    if seen.under_way:
        return Finding(CERTIFICATES_CURRENT, False, RENEWING, "certificates are being renewed")
    return Finding(
        CERTIFICATES_CURRENT, True, "Current", f"the nodes' certificate ends at {_time(seen.certificate_ends_s)}"
    )


def _behind(nodes: Sequence[NodeInForce]) -> str:
    told = [
        f"{node.name} ({node.problem or node.silence})" if node.problem or node.silence else node.name
        for node in nodes[:_NODES_NAMED_MAX]
    ]
    more = len(nodes) - len(told)
    named = ", ".join(told) + (f" and {more} more" if more > 0 else "")
    return f"the renewal waits for nodes that do not use the newest certificates yet: {named}"


def cluster_ca_status(seen: CertificatesSeen) -> ClusterCaStatus:
    """Return the part of a BrokerCluster's status about its certificates: when they end."""
    return ClusterCaStatus(authority_ends=_time(seen.authority_ends_s), certificate_ends=_time(seen.certificate_ends_s))


def _time(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
