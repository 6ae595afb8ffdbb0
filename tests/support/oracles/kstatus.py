"""The status that kstatus computes for an object: its documented rules for a custom resource, in their order.

The first rule that applies decides: deletion in progress, a generation not observed yet, Reconciling, Stalled, then
Ready. Flux and all other tools built on kstatus wait by these rules.
"""

from collections.abc import Mapping
from typing import Any, Literal

Verdict = Literal["Terminating", "InProgress", "Failed", "Current"]


def kstatus(document: Mapping[str, Any]) -> Verdict:
    """The status of an object; Current without any condition.

    If both Reconciling and Stalled are True, the first in the list decides.
    """
    meta, status = document.get("metadata", {}), document.get("status", {})
    if meta.get("deletionTimestamp"):
        return "Terminating"
    if "generation" in meta and status.get("observedGeneration", meta["generation"]) != meta["generation"]:
        return "InProgress"
    conditions = status.get("conditions", [])
    for condition in conditions:
        if condition["status"] == "True" and condition["type"] in ("Reconciling", "Stalled"):
            return "InProgress" if condition["type"] == "Reconciling" else "Failed"
    ready = next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "True")
    return "Current" if ready == "True" else "InProgress"
