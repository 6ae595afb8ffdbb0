"""What is said of an object of ours that the API server has and this operator cannot read.

Such an object was stored by another version of its CRD, or before a rule was tightened. Its status cannot be made from
a model, so it is made from what is there: nothing but the conditions changes.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluicegate_operator.planning.conditions import MESSAGE_MAX, READY, RECONCILING, STALLED

Json = dict[str, Any]

UNREADABLE = "Unreadable"
ADVICE = (
    "until the object is corrected, or an operator runs that knows it, what it has brought about stays, and nothing of"
    " its cluster is taken away that may follow from it"
)


def unreadable_status(body: Mapping[str, Any], why: str, now: datetime) -> Json:
    """Stalled; the rest of the status stays. `why` is what is wrong with the object, in words."""
    old: Mapping[str, Any] = body.get("status") or {}
    conditions = {condition["type"]: condition for condition in old.get("conditions") or ()}
    message = f"this operator cannot read the object: {why}; {ADVICE}"[:MESSAGE_MAX]
    generation = body["metadata"].get("generation", 0)
    for type_, status, text in ((READY, "False", message), (RECONCILING, "False", ""), (STALLED, "True", message)):
        before = conditions.get(type_, {})
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        conditions[type_] = {
            "type": type_,
            "status": status,
            "reason": UNREADABLE,
            "message": text,
            "lastTransitionTime": since or f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "observedGeneration": generation,
        }
    return {**old, "observedGeneration": generation, "conditions": list(conditions.values())}
