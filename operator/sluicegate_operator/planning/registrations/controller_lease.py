"""Detect that the process which holds the Lease of a cluster's controllers has ended, so that the Lease may end. Pure.

The Lease must have been read before the pods; planning.registrations.fencing describes what proves an end. A lost
Kubernetes node proves none: the Lease expires normally.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sluicegate_operator.planning.registrations.fencing import BrokerPod
from sluicegate_operator.planning.registrations.overview import time_of_uuid

JOURNAL_LABEL = "sluicegate.dev/journal"
ADDRESS = "sluicegate.dev/holder-address"


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The holder of a controllers' Lease.

    `host` is empty if the Lease does not contain it. `began_ms` is when the holder's process started, by its host's
    clock; None if the identity does not contain it.
    """

    node_id: int
    host: str = ""
    began_ms: int | None = None


def lease_holder(lease: Mapping[str, Any]) -> LeaseHolder | None:
    """Return the holder of a Lease; None without one, and for a Lease that does not belong to a journal."""
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
    """Return why the holder's process has ended; empty for a process that may exist."""
    if pod is None:
        return f"the pod of controller {holder.node_id} does not exist any more"
    if holder.host and pod.host not in ("", holder.host):
        return f"the pod of controller {holder.node_id} at {holder.host} was replaced by {pod.name}"
    if pod.ended is not None and holder.began_ms is not None and holder.began_ms < pod.ended.at_ms:
        return f"the container of {pod.name} ended ({pod.ended.how})"
    return ""
