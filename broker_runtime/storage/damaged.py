"""A partition whose records cannot be read whole, though they must be there."""

from dataclasses import dataclass
from uuid import UUID

from broker_runtime.storage.loader import Promise

ACCEPT_LOSS = "accept-loss"
"""A file of this name in the partition's folder, made by a person: begin with what can be read."""


@dataclass(frozen=True, slots=True)
class DamagedPartition:
    """`topic_id` is None where the folder does not tell; everything that was promised can be read up to `offset`."""

    topic_id: UUID | None
    offset: int
    promise: Promise
    reason: str

    def __str__(self) -> str:
        return (
            f"its log is damaged on this broker: {self.reason}. Restore the folder while the broker is stopped, or "
            f"make an empty file {ACCEPT_LOSS} in it to go on with what can be read"
        )
