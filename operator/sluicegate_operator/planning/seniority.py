"""The order of objects that claim the same thing: the oldest one gets it; within one second, the first by name."""

from sluicegate_operator.api.metadata import Resource

Seniority = tuple[float, str, str]
"""Creation time in seconds, namespace and name; objects without a creation time come first."""


def seniority(resource: Resource) -> Seniority:
    """Return the sort key, oldest first."""
    created = resource.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, resource.namespace, resource.name
