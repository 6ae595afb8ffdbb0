"""Detects changed manifests by their names, sizes, times and contents, several times a second.

It polls instead of using inotify: polling sees every way in which an editor saves a file and needs no support of the
platform, and a fifth of a second is too short for a user to notice.
"""

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate_operator.api.manifests import SUFFIXES

POLL_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Seen:
    """One file: the result of `stat`, and a hash of its content."""

    inode: int
    size: int
    modified_ns: int
    digest: str


class ManifestWatch:
    """Remembers the contents of manifest files, to find those that changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._seen = self._scan({})

    def changed(self) -> list[Path] | None:
        """Return the files whose content changed since the last call, including deleted ones; None if none did."""
        now = self._scan(self._seen)
        before, self._seen = self._seen, now
        names = [path for path in {**before, **now} if _digest(before.get(path)) != _digest(now.get(path))]
        return sorted(names) or None

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


def _digest(seen: Seen | None) -> str | None:
    return seen.digest if seen is not None else None


def modified_at(paths: Sequence[Path], now_s: float, oldest_s: float) -> float:
    """Return the time of the change, in seconds: the latest modification.

    It is `now_s` for files that were deleted, or moved here with a time before `oldest_s`, the previous check.
    """
    times = [path.stat().st_mtime for path in paths if path.exists()]
    latest_s = max(times, default=now_s)
    return latest_s if oldest_s <= latest_s <= now_s else now_s
