"""Folders of partitions that are no longer in use, and folders that are set aside for a person to decide about."""

import re
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID, uuid4

from broker_runtime.storage.disk.checkpoint import Partition, read_topic_id
from broker_runtime.storage.disk.filesystem import FileSystem

DELETED = "-delete"
STRAY = "-stray"
_STRAY_FOLDER = re.compile(r".+-(?P<partition>\d+)\.[0-9a-f]{32}-stray")
_PARTED_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f]{32}-(delete|stray)")
_NAME_MAX = 255
_UNKNOWN = UUID(int=0)


def parting_name(folder: Path, suffix: str) -> Path:
    """Return Kafka's name for a partition's folder that is no longer in use.

    As in Kafka, a long topic name is cut.
    """
    topic, _, partition = folder.name.rpartition("-")
    rest = f"-{partition}.{uuid4().hex}{suffix}"
    return folder.with_name(topic[: _NAME_MAX - len(rest)] + rest)


def missing_partitions(partitions: Iterable[Partition], parted: Iterable[str]) -> list[Partition]:
    """Return the partitions that have no folder among `parted`, the names of folders that are no longer in use."""
    had: set[Partition] = set()
    had_of_long_names: list[Partition] = []
    for name in parted:
        match = _PARTED_FOLDER.fullmatch(name)
        if match is not None:
            had.add((match["topic"], int(match["partition"])))
            if len(name) == _NAME_MAX:
                had_of_long_names.append((match["topic"], int(match["partition"])))
    return [
        (topic, partition)
        for topic, partition in partitions
        if (topic, partition) not in had
        and not any(partition == number and topic.startswith(cut) for cut, number in had_of_long_names)
    ]


class StrayFolders:
    """Folders that this process or an earlier one has set aside. They are renamed, never deleted."""

    def __init__(self, fs: FileSystem, log_dir: Path) -> None:
        self._fs = fs
        self._log_dir = log_dir
        self._known: dict[str, tuple[UUID, int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def note(self, name: str) -> None:
        """Register a folder that the start of the broker found."""
        match = _STRAY_FOLDER.fullmatch(name)
        if match is None:
            return
        try:
            topic_id = read_topic_id(self._fs, self._log_dir / name)
        except ValueError:
            # No topic id can ask for it.
            topic_id = _UNKNOWN
        self._known[name] = topic_id, int(match["partition"])

    def take(self, folder: Path) -> str:
        """Set the folder aside: rename it durably, and return its new name. Raises OSError."""
        stray = parting_name(folder, STRAY)
        self._fs.rename(folder, stray)
        self._fs.fsync_dir(self._log_dir)
        self.note(stray.name)
        return stray.name

    def of(self, topic_id: UUID, partition: int) -> str | None:
        """Return the name of a folder that was set aside with records of this partition; None without such a folder."""
        return next((name for name, known in self._known.items() if known == (topic_id, partition)), None)
