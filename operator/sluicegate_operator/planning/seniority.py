"""Of objects that want the same thing the oldest has it; of those of one second, the first by name."""

from sluicegate_operator.api.metadata import Resource

Seniority = tuple[float, str, str]
"""Creation time in seconds, namespace and name; what has no creation time yet comes first."""


def seniority(resource: Resource) -> Seniority:
    """To sort by, oldest first."""
    created = resource.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, resource.namespace, resource.name
