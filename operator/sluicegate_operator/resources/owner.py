"""Owner references: children go when the custom resource goes."""

from typing import Any

from sluicegate_operator.api.metadata import API_VERSION, Kind


def owner_reference(owner: Kind) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": type(owner).__name__,
        "name": owner.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_metadata(owner: Kind, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(owner)],
    }
