"""Detects changed manifests by their names, sizes, times and contents, several times a second.

It polls instead of using inotify: polling sees every way in which an editor saves a file and needs no support of the
platform, and a fifth of a second is too short for a user to notice.

An editor that truncates a file before it writes the new content, or a `git checkout` that removes and creates files,
shows intermediate states. Their objects would be deleted. So a change counts only if two scans in a row have found it,
and the removal of a file only after `REMOVED_SCANS` scans.
"""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate_operator.api.manifests import SUFFIXES

POLL_INTERVAL_S = 0.1
CHANGED_SCANS = 2
"""Number of consecutive scans that must find the same contents before a change counts."""
REMOVED_SCANS = 10
"""The same number for a missing file, whose objects are deleted, some of them with their records."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of one manifest file: the result of `stat`, and a hash of its content."""

    inode: int
    size: int
    modified_ns: int
    digest: str


class ManifestWatch:
    """The contents of manifest files at the last scan, to find files that changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._reported = self._seen = self._scan({})
        self._same_scans = CHANGED_SCANS
        """Scans in a row that have found the present contents."""

    def changed(self) -> list[Path] | None:
        """Look for changed files of manifests.

        Return those with changed contents, including deleted ones; None without any change yet.
        """
        now = self._scan(self._seen)
        self._same_scans = self._same_scans + 1 if not _differing(self._seen, now) else 1
        self._seen = now
        names = _differing(self._reported, now)
        needed = CHANGED_SCANS if all(path in now for path in names) else REMOVED_SCANS
        if not names or self._same_scans < needed:
            return None
        self._reported = now
        return names

    @property
    def is_changing(self) -> bool:
        """Return whether the last scan has found a change that `changed` has not returned yet."""
        return bool(_differing(self._reported, self._seen))

    def _scan(self, before: dict[Path, Seen]) -> dict[Path, Seen]:
        found = {}
        for file in self._files():
            try:
                stat = file.stat()
                known = before.get(file)
                if known and (known.inode, known.size, known.modified_ns) == (
                    stat.st_ino,
                    stat.st_size,
                    stat.st_mtime_ns,
                ):
                    found[file] = known
                else:
                    digest = hashlib.sha256(file.read_bytes()).hexdigest()
                    found[file] = Seen(stat.st_ino, stat.st_size, stat.st_mtime_ns, digest)
            except OSError:
                continue  # deleted meanwhile: the next call sees it
        return found

    def _files(self) -> list[Path]:
        files: list[Path] = []
        for path in self._paths:
            if path.is_dir():
                with contextlib.suppress(OSError):  # deleted, or not readable: reported on load
                    files += [entry for entry in path.iterdir() if entry.suffix in SUFFIXES]
            else:
                files.append(path)
        return files


def _differing(before: Mapping[Path, Seen], now: Mapping[Path, Seen]) -> list[Path]:
    """Return the files with other contents, and those that only one of the scans has found."""
    return sorted(path for path in {**before, **now} if _digest(before.get(path)) != _digest(now.get(path)))


def _digest(seen: Seen | None) -> str | None:
    return seen.digest if seen is not None else None


def modified_at(paths: Sequence[Path], now_s: float, oldest_s: float) -> float:
    """Return the time of a change of files, in seconds: the latest modification.

    The time is `now_s` for files that were deleted, or moved here with a time before `oldest_s`, the last check before
    the change.
    """
    times = [path.stat().st_mtime for path in paths if path.exists()]
    latest_s = max(times, default=now_s)
    return latest_s if oldest_s <= latest_s <= now_s else now_s
