"""What kstatus makes of an object: its documented rules for a custom resource, in their order.

The first that applies decides: an object on its way out, a generation that is not observed, Reconciling, Stalled, then
Ready as any kind may have it. Flux waits by these rules, and so does whatever else is built on kstatus.
"""

from collections.abc import Mapping
from typing import Any, Literal

Verdict = Literal["Terminating", "InProgress", "Failed", "Current"]


def kstatus(document: Mapping[str, Any]) -> Verdict:
    """Of the first of Reconciling and Stalled that is True in the list; an object that says nothing is Current."""
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
