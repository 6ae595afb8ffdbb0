"""Pods as workload quotas see them: the few fields of any user's pod that are kept."""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.planning.limits.pod_index import FINISHED_PHASES, WorkloadPod, canonical


def workload_pod(body: Mapping[str, Any]) -> WorkloadPod | None:
    """Return the kept part of a pod; None after the pod has ended, because another pod may have its address."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    if status.get("phase") in FINISHED_PHASES:
        return None
    return WorkloadPod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        labels=meta.get("labels") or {},
        addresses=_addresses(status),
        host_network=bool(spec.get("hostNetwork")),
        leaving=bool(meta.get("deletionTimestamp")),
        started=status.get("startTime") or meta.get("creationTimestamp") or "",
    )


def _addresses(status: Mapping[str, Any]) -> tuple[str, ...]:
    found = [one.get("ip") for one in status.get("podIPs") or ()] or [status.get("podIP")]
    return tuple(dict.fromkeys(canonical(address) for address in found if address))


def trimmed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the part of a pod that workload_pod reads: many pods of a cluster are not the operator's."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    kept = ("uid", "namespace", "name", "labels", "resourceVersion", "deletionTimestamp", "creationTimestamp")
    return {
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"hostNetwork": True} if spec.get("hostNetwork") else {},
        "status": {key: status[key] for key in ("phase", "podIP", "podIPs", "startTime") if key in status},
    }
