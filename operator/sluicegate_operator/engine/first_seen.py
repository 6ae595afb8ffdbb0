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
    """When this operator first heard of each generation of each object. Bounded."""

    MAX = 20_000

    _times: dict[Generation, datetime] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)
    """Of each object that is there, by its uid."""

    def note(self, body: Mapping[str, Any], at: datetime | None = None) -> None:
        """`at`: when it became so, where that is known; now otherwise."""
        meta = body["metadata"]
        uid, generation = meta["uid"], meta.get("generation", 0)
        self._newest[uid] = max(generation, self._newest.get(uid, 0))
        self._times.setdefault((uid, generation), at or datetime.now(UTC))
        while len(self._times) > self.MAX:
            del self._times[next(iter(self._times))]

    def of(self, resource: Resource) -> datetime | None:
        return self._times.get(resource.spec_version)

    def forget(self, uid: str) -> None:
        # Older generations give way to newer objects: nobody asks for them any more.
        self._times.pop((uid, self._newest.pop(uid, -1)), None)
