"""The order of objects that claim the same thing: the oldest one gets it; within one second, the first by name."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluicegate_operator.api.schema.metadata import Resource

Seniority = tuple[float, str, str]
"""Creation time in seconds, namespace and name; objects without a creation time come first."""


def seniority(resource: Resource) -> Seniority:
    """Return the sort key, oldest first."""
    created = resource.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, resource.namespace, resource.name


def seniority_of_body(body: Mapping[str, Any]) -> Seniority:
    """Return the seniority of an object of which only the metadata is valid."""
    meta = body["metadata"]
    created = meta.get("creationTimestamp")
    return datetime.fromisoformat(created).timestamp() if created else 0.0, meta.get("namespace") or "", meta["name"]
