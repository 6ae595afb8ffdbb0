"""Whether the process that holds the Lease of a cluster's controllers has ended, so that the Lease may end with it.

Pure. The Lease must have been read before the pods; what proves an end and what does not is as in planning.fencing. Of
a Kubernetes node that is lost nothing is said: the Lease runs out by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sluicegate_operator.planning.fencing import BrokerPod
from sluicegate_operator.planning.overview import time_of_uuid

JOURNAL_LABEL = "sluicegate.dev/journal"
ADDRESS = "sluicegate.dev/holder-address"


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """`host` is empty where the Lease does not say it, `began_ms` None where the identity does not: when its process
    began, by its host's clock."""

    node_id: int
    host: str = ""
    began_ms: int | None = None


def lease_holder(lease: Mapping[str, Any]) -> LeaseHolder | None:
    """None for a Lease that nobody holds, and for one that is none of a journal."""
    meta, spec = lease["metadata"], lease.get("spec") or {}
    number, _, incarnation = (spec.get("holderIdentity") or "").partition("_")
    if not number.isdecimal() or (meta.get("labels") or {}).get(JOURNAL_LABEL) != meta["name"]:
        return None
    host = (meta.get("annotations") or {}).get(ADDRESS, "").rpartition(":")[0].strip("[]")
    return LeaseHolder(int(number), host, _began_ms(incarnation))


def _began_ms(incarnation: str) -> int | None:
    try:
        return time_of_uuid(UUID(incarnation))
    except ValueError:
        return None


def why_holder_gone(holder: LeaseHolder, pod: BrokerPod | None) -> str:
    """Empty for one that may be there."""
    if pod is None:
        return f"the pod of controller {holder.node_id} is gone"
    if holder.host and pod.host not in ("", holder.host):
        return f"the pod of controller {holder.node_id} at {holder.host} is gone, {pod.name} is its successor"
    if pod.ended is not None and holder.began_ms is not None and holder.began_ms < pod.ended.at_ms:
        return f"the container of {pod.name} ended ({pod.ended.how})"
    return ""
