"""Children as the API server stores them: which fields the operator owns, and the error for a name that is taken."""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER
from sluicegate_operator.resources.owner import why_stays

Json = dict[str, Any]

CHILD_MANAGER = "sluicegate-operator"
UNPROCESSABLE = 422
_NOT_HANDED_OVER = ("StatefulSet",)
"""Kinds whose selector and volumeClaimTemplates are immutable, so the operator could not use another user's object."""


def applied_fields(found: Mapping[str, Any]) -> Json:
    """Return the metadata to merge into a child that was created and never applied; empty for other children.

    The API server records field ownership of a create apart from that of an apply, and an apply removes only fields
    that an apply has set. Without this merge, a field that the child was created with could never be removed.
    """
    meta = found["metadata"]
    entries = meta.get("managedFields") or []
    own = [entry for entry in entries if entry.get("manager") == CHILD_MANAGER and not entry.get("subresource")]
    if not own or any(entry.get("operation") == "Apply" for entry in own):
        return {}
    fields = [{**entry, "operation": "Apply"} if entry in own else entry for entry in entries]
    return {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "managedFields": fields}


def without_earlier_controller(found: Mapping[str, Any], child: Mapping[str, Any]) -> Json:
    """Return the metadata to merge into a child that an earlier owner of the same name controls; empty for others.

    An object has at most one controller, and an apply does not remove one that another manager has set, such as a tool
    that restores a backup.
    """
    meta = found["metadata"]
    owners = meta.get("ownerReferences") or []
    wanted = {owner["uid"] for owner in child["metadata"].get("ownerReferences") or ()}
    left = [owner for owner in owners if not owner.get("controller") or owner["uid"] in wanted]
    if left == owners:
        return {}
    return {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "ownerReferences": left}


def name_taken(child: Mapping[str, Any], found: Mapping[str, Any], why: str) -> NameTakenError:
    """Return the error about `found`, another client's object with the name of `child`. `why`: see why_not_ours."""
    meta = child["metadata"]
    owner = next((reference["kind"] for reference in meta.get("ownerReferences") or ()), "object")
    other_name = f"create the {owner} with another name"
    sentence = f"a {child['kind']} {meta['name']} that does not belong to the operator exists ({why})"
    if stays := why_stays(found):
        return NameTakenError(f"{sentence}; it {stays}: wait until it is gone, or {other_name}")
    sentence += f", and the operator does not change it: delete it, or {other_name}"
    if child["kind"] not in _NOT_HANDED_OVER:
        labels = f"{MANAGED_BY_LABEL}={MANAGER} and {CLUSTER_LABEL}={meta['labels'][CLUSTER_LABEL]}"
        sentence += f"; to hand over an object without a controller, label it {labels}"
    return NameTakenError(sentence)


def immutable_refused(found: Mapping[str, Any], error: KubeError) -> KubeError:
    """Return the API server's refusal to change `found`, a child of the operator, as a sentence if it is immutable.

    Another client may have set `immutable` in a ConfigMap or a Secret, which nothing but its deletion can revert.
    """
    if error.status != UNPROCESSABLE or not found.get("immutable"):
        return error
    kind, name = found["kind"], found["metadata"]["name"]
    return KubeError(
        f"{kind} {name} has `immutable: true`, so the operator cannot change it: delete it (kubectl delete"
        f" {kind.lower()} {name}), and the operator creates it again. The API server: {error}",
        UNPROCESSABLE,
    )


def who_set(found: Mapping[str, Any], *path: str) -> str:
    """Return the manager that set the field at `path` to another value, and when; empty if no manager did.

    A manager that changes a value takes the field from all other managers. While the operator owns the field, the value
    is the operator's own, even if other managers own it too.
    """
    owners = [entry for entry in found["metadata"].get("managedFields") or () if _owns(entry, path)]
    if not owners or any(entry.get("manager") == CHILD_MANAGER for entry in owners):
        return ""
    newest = max(owners, key=lambda entry: entry.get("time") or "")
    at = f" at {newest['time']}" if newest.get("time") else ""
    return f"{newest['manager']}{at}"


def _owns(entry: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    fields = entry.get("fieldsV1") or {}
    for name in path:
        if f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
    return True
