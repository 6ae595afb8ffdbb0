"""Owner references, which delete children with their resource; and which objects the operator may treat as its own.

Names of children are derived from names that users choose, so another client's object may already have such a name.
"""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.schema.metadata import API_VERSION, GROUP, Resource
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER

_KUBERNETES_GROUPS = ("", "apps", "batch")
"""API groups of Kubernetes' own controllers."""


def owner_reference(owner: Resource) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": type(owner).__name__,
        "name": owner.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_metadata(owner: Resource, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(owner)],
    }


def why_not_ours(found: Mapping[str, Any], child: Mapping[str, Any]) -> str:
    """Return why `found`, which has the name of `child`, must not be touched; empty if `found` is that child.

    It is that child if the child's owner controls it. It also is if no object controls it and it has the labels of the
    operator and of the cluster. The operator sets these labels, or a user who hands the object over.
    """
    wanted = child["metadata"]
    labelled = all(
        _labels(found).get(label) == wanted["labels"].get(label) for label in (MANAGED_BY_LABEL, CLUSTER_LABEL)
    )
    controller = _controller(found)
    if controller is None:
        return "" if labelled else _why_not_labelled(found)
    owner = _controller(child)
    if owner is not None and controller["uid"] == owner["uid"]:
        return ""
    if owner is None or any(controller[key] != owner[key] for key in ("kind", "name")):
        return f"{_named(controller)} controls it"
    # The user knows a live object of this kind and name, which does not control it.
    if controller["apiVersion"] != owner["apiVersion"]:
        return f"{controller['kind']} {controller['name']} of {controller['apiVersion']} controls it"
    if not labelled:
        return (
            f"an earlier {controller['kind']} {controller['name']} with the uid {controller['uid']} controls it, and it"
            " lacks the operator's labels"
        )
    # A child of an owner with the same name that was deleted a moment ago.
    return ""


def why_stays(found: Mapping[str, Any]) -> str:
    """Return the rest of a sentence about an object that is being deleted: what it waits for. Empty for any other."""
    meta = found["metadata"]
    if not meta.get("deletionTimestamp"):
        return ""
    finalizers = ", ".join(meta.get("finalizers") or ())
    return "is being deleted" + (f", and stays until its finalizers are removed: {finalizers}" if finalizers else "")


def other_controller(found: Mapping[str, Any], node_set: str) -> str:
    """Return words for the object's controller; empty for none, that StatefulSet or one of its pods."""
    controller = controller_of(found)
    if controller is None:
        return ""
    group, kind, name = controller
    if controller == ("apps", "StatefulSet", node_set):
        return ""
    if (group, kind) == ("", "Pod") and name.rpartition("-")[0] == node_set:
        return ""
    return _named(_controller(found) or {})


def controller_of(found: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return API group, kind and name of the object's controller; None without a controller."""
    controller = _controller(found)
    if controller is None:
        return None
    return controller["apiVersion"].rpartition("/")[0], controller["kind"], controller["name"]


def has_controller(found: Mapping[str, Any]) -> bool:
    """Return whether any object controls this one."""
    return _controller(found) is not None


def is_controlled_by(found: Mapping[str, Any], uid: str) -> bool:
    """Return whether the object with that uid is the controller of `found`; a plain owner is not."""
    controller = _controller(found)
    return controller is not None and controller["uid"] == uid


def _named(controller: Mapping[str, Any]) -> str:
    """Return words for a controller.

    Another object may have its kind and name now: a later one of the operator's kinds, or one of another API group, as
    OpenKruise has StatefulSets.
    """
    group, words = controller["apiVersion"].rpartition("/")[0], f"{controller['kind']} {controller['name']}"
    if group == GROUP:
        return f"{words} with the uid {controller['uid']}"
    return words if group in _KUBERNETES_GROUPS else f"{words} of {group}"


def _why_not_labelled(found: Mapping[str, Any]) -> str:
    labels = _labels(found)
    if labels.get(MANAGED_BY_LABEL) == MANAGER and (cluster := labels.get(CLUSTER_LABEL)):
        return f"it has no controller, and its label {CLUSTER_LABEL} names cluster {cluster}"
    return "it has no controller and lacks the operator's labels"


def _labels(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    return manifest["metadata"].get("labels") or {}


def _controller(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)
