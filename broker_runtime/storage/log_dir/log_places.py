"""Where the logs of a folder are: the path of each partition, and the services that its log uses."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.disk.waiters import Wakes
from broker_runtime.storage.log_dir.log_dir_health import LogDirHealth


class LogPlaces:
    """The places of logs, by the rules of their topics.

    `LogManager.open` sets the topics with rules of their own before the first log is loaded. Nothing is durable: a
    place only names files.
    """

    def __init__(
        self,
        log_dir: Path,
        fs: FileSystem,
        clock: Clock,
        disk: Disk,
        wakes: Wakes,
        dir_health: LogDirHealth,
        on_failed: Callable[[], None],
    ) -> None:
        """`on_failed` is called when only a restart can determine which records of a log survived."""
        self.journal: str | None = None
        """The topic whose high watermark moves only after a sync, and whose offsets are broker epochs."""
        self.copy: str | None = None
        """A topic that is stored elsewhere and rebuilt when that store is read."""
        self.log_dir = log_dir
        self.fs = fs
        self.clock = clock
        self._disk = disk
        self._wakes = wakes
        self._dir_health = dir_health
        self._on_failed = on_failed

    def is_metadata(self, topic: str) -> bool:
        """Return whether the topic is the journal or the copy, whose logs are written even in a full directory."""
        return topic in (self.journal, self.copy)

    def folder(self, key: Partition) -> Path:
        return self.log_dir / f"{key[0]}-{key[1]}"

    def place(self, key: Partition, topic_id: UUID) -> LogPlace:
        return LogPlace(
            self.folder(key),
            *key,
            topic_id,
            self.fs,
            self.clock,
            on_failed=self._on_failed,
            on_write_failed=self._dir_health.write_failed,
            may_append=_always if self.is_metadata(key[0]) else self._dir_health.check,
            disk=self._disk,
            wakes=self._wakes,
        )


def _always() -> None:
    pass
