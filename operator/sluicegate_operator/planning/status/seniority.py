"""The order of objects that claim the same thing: the oldest one gets it; within one second, the first by name."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluicegate_operator.api.schema.metadata import Resource

Seniority = tuple[float, str, str]
"""The age of an object: creation time in seconds, namespace and name. Objects without a creation time come first."""


def seniority(resource: Resource) -> Seniority:
    """Return the sort key by which the oldest object is first."""
    created = resource.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, resource.namespace, resource.name


def seniority_of_body(body: Mapping[str, Any]) -> Seniority:
    """Return the seniority of an object whose metadata alone is valid."""
    meta = body["metadata"]
    created = meta.get("creationTimestamp")
    return datetime.fromisoformat(created).timestamp() if created else 0.0, meta.get("namespace") or "", meta["name"]
