"""When each generation of an object was first heard of: what the time until it is in force is counted from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sluicegate_operator.api.metadata import Resource

Generation = tuple[str, int]
"""Uid and generation of an object."""


@dataclass(slots=True)
class FirstSeen:
    """When this operator first heard of the newest generation of each object; bounded by the objects that there are.
    Nobody asks for an older one: it gives way to the next."""

    _newest: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """By uid."""

    def note(self, body: Mapping[str, Any], at: datetime | None = None) -> None:
        """`at`: when it became so, where that is known; now otherwise."""
        meta = body["metadata"]
        uid, generation = meta["uid"], meta.get("generation", 0)
        if generation > self._generation(uid):
            self._newest[uid] = generation, at or datetime.now(UTC)

    def of(self, resource: Resource) -> datetime | None:
        generation, moment = self._newest.get(resource.metadata.uid, (-1, None))
        return moment if generation == resource.metadata.generation else None

    def forget(self, uid: str) -> None:
        self._newest.pop(uid, None)

    def _generation(self, uid: str) -> int:
        """-1 of what was never heard of."""
        return self._newest[uid][0] if uid in self._newest else -1
