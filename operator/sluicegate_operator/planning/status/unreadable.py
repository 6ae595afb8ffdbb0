"""The status of an object that the API server stores and this operator must not use.

The operator cannot read an object that was stored by another version of its CRD, or before a rule was tightened. It
leaves a BrokerCluster to the much newer operator that wrote its status. In both cases the status is edited as JSON:
only the conditions and observedGeneration change.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluicegate_operator.planning.status.conditions import MESSAGE_MAX, READY, RECONCILING, STALLED

Json = dict[str, Any]

UNREADABLE = "Unreadable"
"""Reason: the object does not fit the models of this operator."""
NEWER_VERSION = "NewerVersion"
"""Reason: an operator that is newer by more than one minor release has written the status."""
CANNOT_READ = "this operator cannot read the object"
ADVICE = (
    "until the object is corrected, or a newer operator runs, the operator keeps what it created for this"
    " object, and removes nothing of the cluster that may depend on it"
)
LEFT_ALONE = (
    "until then the operator changes nothing of this cluster and of the objects that name it, and its nodes continue to"
    " run"
)


def unusable_words(name: str, why: str, reason: str) -> str:
    """Return a sentence about the object with this name, for other objects and for logs."""
    what = "is left unchanged" if reason == NEWER_VERSION else "cannot be read"
    return f"{name} {what} ({why})"


def conditions_of(body: Mapping[str, Any]) -> list[Json]:
    """Return the conditions of an object that cannot be read. Values of another schema are left out."""
    status = body.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    listed = found if isinstance(found, list) else []
    return [one for one in listed if isinstance(one, dict) and isinstance(one.get("type"), str)]


def unreadable_status(body: Mapping[str, Any], why: str, now: datetime, reason: str = UNREADABLE) -> Json:
    """Return the status Stalled of an object that must not be used; its other fields stay.

    `why` describes the fault of the object, and `reason` is that of its conditions.
    """
    found = body.get("status")
    old: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    conditions = {condition["type"]: condition for condition in conditions_of(body)}
    message = f"{why}; {LEFT_ALONE}" if reason == NEWER_VERSION else f"{CANNOT_READ}: {why}; {ADVICE}"
    generation = body["metadata"].get("generation", 0)
    for type_, status, text in ((READY, "False", message), (RECONCILING, "False", ""), (STALLED, "True", message)):
        before = conditions.get(type_, {})
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        conditions[type_] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": text[:MESSAGE_MAX],
            "lastTransitionTime": since or f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "observedGeneration": generation,
        }
    return {**old, "observedGeneration": generation, "conditions": list(conditions.values())}


def text_at(body: Mapping[str, Any], *path: str) -> str:
    """Return the text at this path of an object that cannot be read; empty without a text there."""
    found: Any = body
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""
