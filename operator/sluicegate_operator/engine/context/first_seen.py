"""When each generation of an object was first seen: the start of the measured time until it is enforced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sluicegate_operator.api.schema.metadata import Resource

Generation = tuple[str, int]
"""The uid and the generation of an object."""


@dataclass(slots=True)
class FirstSeen:
    """The time when this operator first saw the newest generation of each object.

    Its size is bounded by the number of objects. Only the newest generation is kept, because no caller needs an older
    one.
    """

    _newest: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """The newest generation of each object and the time at which it was first seen, by uid."""

    def note(self, body: Mapping[str, Any], at: datetime | None = None) -> None:
        """Record when the operator first saw the object's generation.

        `at` is the time of this generation if it is known; now otherwise.
        """
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
        """Return the newest known generation, -1 for an object that was never seen."""
        return self._newest[uid][0] if uid in self._newest else -1
