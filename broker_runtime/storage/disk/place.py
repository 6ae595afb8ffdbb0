"""The location of one partition's log and the services that it uses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.storage.disk.disk import Disk, InlineDisk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.waiters import AtOnce, Wakes


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The facts and services that all parts of one log share."""

    folder: Path
    topic: str
    partition: int
    topic_id: UUID
    fs: FileSystem
    clock: Clock
    on_failed: Callable[[], None] = lambda: None
    """Called when only a restart can determine which records survived."""

    on_write_failed: Callable[[str, OSError], None] = lambda _what, _error: None
    """Called on the event loop with a description of the failed write."""

    may_append: Callable[[], None] = lambda: None
    """A function that raises KafkaError while the log directory has no room for records."""

    disk: Disk = field(default_factory=InlineDisk)
    wakes: Wakes = field(default_factory=AtOnce)

    def sync_folder(self) -> None:
        """Make the names in the log's folder durable. Raises OSError."""
        self.fs.fsync_dir(self.folder)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
