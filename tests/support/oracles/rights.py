"""Comparison of rights at an API server."""

from collections.abc import Mapping

from sluicegate_operator.kube.client.rights import Resource

Rights = Mapping[Resource, frozenset[str]]


def surplus(one: Rights, other: Rights) -> list[str]:
    """The rights in `one` that `other` lacks, in words."""
    return sorted(
        f"{verb} {'.'.join(filter(None, (resource, group)))}"
        for (group, resource), verbs in one.items()
        for verb in verbs - other.get((group, resource), frozenset())
    )
