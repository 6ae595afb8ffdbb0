"""A partition some of whose records, which must exist, cannot be read."""

from dataclasses import dataclass
from uuid import UUID

from broker_runtime.storage.log_dir.loader import Promise

ACCEPT_LOSS = "accept-loss"
"""Name of the file that a person creates in the partition's folder to start with the readable records."""


@dataclass(frozen=True, slots=True)
class DamagedPartition:
    """`topic_id` is None if the folder does not have it; all promised records up to `offset` can be read."""

    topic_id: UUID | None
    offset: int
    promise: Promise
    reason: str

    def __str__(self) -> str:
        return (
            f"its log is damaged on this broker: {self.reason}. Restore the folder while the broker is stopped, or "
            f"create an empty file {ACCEPT_LOSS} in it to continue with the readable records"
        )
