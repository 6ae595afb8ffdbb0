"""The in-memory twin of `OsFileSystem`: the same contract, and failures on command.

It keeps apart what a process sees (the page cache) and what the disk has: contents become durable with `fsync`, names
with `fsync_dir`. `power_loss` returns the file system as the next boot would find it.
"""

import errno
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path

from broker_runtime.storage.disk.filesystem import Buffer, FsyncFailedError


class _Inode:
    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.is_dropped = False
        """Whether an fsync has failed.

        The pages then count as clean: no later fsync writes them, and the next process has none.
        """
        self.bad_bytes: list[tuple[int, int]] = []
        """Reads of these bytes, each from the first up to the second, raise EIO until they are written again."""

    def renew(self, begin: int, end: int | None) -> None:
        """Note that these bytes are written or cut off: a disk then replaces bad ones."""
        self.bad_bytes = [bad for bad in self.bad_bytes if bad[1] <= begin or (end is not None and end <= bad[0])]


class MemoryFile:
    """An open file of a MemoryFileSystem."""

    def __init__(self, fs: "MemoryFileSystem", inode: _Inode) -> None:
        self._fs = fs
        self._inode = inode

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def size(self) -> int:
        return len(self._inode.content)

    def pread(self, size: int, offset: int) -> bytes:
        for begin, end in self._inode.bad_bytes:
            if begin < offset + size and offset < end:
                raise OSError(errno.EIO, "input/output error")
        return bytes(self._inode.content[offset : offset + size])

    def write_at(self, buffers: Sequence[Buffer], offset: int) -> None:
        data = b"".join(buffers)
        content = self._inode.content
        room = self._fs.room_for(offset + len(data) - len(content))
        fits = min(len(data), max(0, len(content) - offset) + room)
        if offset > len(content):
            content += bytes(offset - len(content))
        content[offset : offset + fits] = data[:fits]
        self._inode.renew(offset, offset + fits)
        if fits < len(data):
            raise OSError(errno.ENOSPC, "no space left on device")

    def truncate(self, size: int) -> None:
        self._fs.check_truncate()
        content = self._inode.content
        content += bytes(max(0, size - len(content)))
        del content[size:]
        self._inode.renew(size, None)

    def fsync(self) -> None:
        inode = self._inode
        try:
            self._fs.check_fsync()
        except OSError:
            inode.is_dropped = inode.is_dropped or bytes(inode.content) != inode.durable
            raise
        if not inode.is_dropped:
            inode.durable = bytes(inode.content)


class _Held:
    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path
        locks.add(path)

    def __del__(self) -> None:
        self._locks.discard(self._path)


class _Folder:
    def __init__(self) -> None:
        self.entries: dict[str, _Inode | _Folder] = {}
        self.durable: dict[str, _Inode | _Folder] = {}
        self.since: list[dict[str, _Inode | _Folder]] = []
        """The names after each change since they were durable."""

    def changed(self) -> None:
        self.since.append(dict(self.entries))


class MemoryFileSystem:
    """A file system with faults.

    `capacity_bytes` limits all contents together; `failing_*` and `read_only` make those calls raise EIO.

    With `no_descriptors` no file can be opened any more (EMFILE); those in `unreadable` cannot either (EIO).
    `before_change` is called before each change to the disk or the page cache: a test can check there what a crash
    leaves.
    """

    def __init__(self) -> None:
        self.capacity_bytes: int | None = None
        self.failing_fsync = False
        self.failing_truncate = False
        self.read_only = False
        self.no_descriptors = False
        self.unreadable: set[Path] = set()
        self.fsyncs = 0
        self.before_change: Callable[[], None] = _nothing
        self._root = _Folder()
        self._locks: set[Path] = set()

    def mend(self) -> None:
        self.capacity_bytes = None
        self.failing_fsync = self.failing_truncate = self.read_only = self.no_descriptors = False

    def room_for(self, extra: int) -> int:
        self.check_writable()
        if self.capacity_bytes is None:
            return max(extra, 0)
        return max(0, min(extra, self.capacity_bytes - _used(self._root)))

    def used_bytes(self) -> int:
        return _used(self._root)

    def check_writable(self) -> None:
        self.before_change()
        if self.read_only:
            raise OSError(errno.EIO, "input/output error")

    def check_truncate(self) -> None:
        self.check_writable()
        if self.failing_truncate:
            raise OSError(errno.EIO, "input/output error")

    def check_descriptors(self) -> None:
        if self.no_descriptors:
            raise OSError(errno.EMFILE, "too many open files")

    def check_fsync(self) -> None:
        self.fsyncs += 1
        self.before_change()
        if self.failing_fsync:
            raise FsyncFailedError(errno.EIO, "input/output error")

    def _find(self, path: Path) -> _Inode | _Folder:
        found: _Inode | _Folder = self._root
        for name in path.parts[1:]:
            below = found.entries.get(name) if isinstance(found, _Folder) else None
            if below is None:
                raise FileNotFoundError(errno.ENOENT, "no such file or folder", str(path))
            found = below
        return found

    def _folder(self, path: Path) -> _Folder:
        found = self._find(path)
        if not isinstance(found, _Folder):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
        return found

    def open(self, path: Path, *, create: bool = False) -> MemoryFile:
        self.check_descriptors()
        if path in self.unreadable:
            raise OSError(errno.EIO, "input/output error", str(path))
        if create:
            entries = self._folder(path.parent).entries
            self.check_writable()
            if path.name not in entries:
                if self.capacity_bytes == 0:
                    raise OSError(errno.ENOSPC, "no space left on device")
                entries[path.name] = _Inode()
                self._folder(path.parent).changed()
        found = self._find(path)
        if isinstance(found, _Folder):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        if create:
            found.content.clear()
        return MemoryFile(self, found)

    def exists(self, path: Path) -> bool:
        try:
            self._find(path)
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, path: Path) -> bool:
        return self.exists(path) and isinstance(self._find(path), _Folder)

    def listdir(self, path: Path) -> list[str]:
        self.check_descriptors()
        return sorted(self._folder(path).entries)

    def mkdir(self, path: Path) -> None:
        folder = self._root
        for name in path.parts[1:]:
            below = folder.entries.setdefault(name, _Folder())
            if not isinstance(below, _Folder):
                raise FileExistsError(errno.EEXIST, "a file has that name", str(path))
            folder = below

    def rename(self, source: Path, target: Path) -> None:
        moved = self._find(source)
        self.before_change()
        self._folder(target.parent).entries[target.name] = moved
        del self._folder(source.parent).entries[source.name]
        self._folder(target.parent).changed()

    def unlink(self, path: Path) -> None:
        if isinstance(self._find(path), _Folder):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        self.before_change()
        del self._folder(path.parent).entries[path.name]
        self._folder(path.parent).changed()

    def rmdir(self, path: Path) -> None:
        if self._folder(path).entries:
            raise OSError(errno.ENOTEMPTY, "folder not empty", str(path))
        del self._folder(path.parent).entries[path.name]

    def fsync_dir(self, path: Path) -> None:
        self.check_descriptors()
        folder = self._folder(path)
        self.check_fsync()
        folder.durable = dict(folder.entries)
        folder.since.clear()

    def free_bytes(self, path: Path) -> int:
        self._folder(path)
        return 1 << 50 if self.capacity_bytes is None else max(0, self.capacity_bytes - _used(self._root))

    def lock(self, path: Path) -> _Held:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", str(path))
        self._folder(path.parent).entries.setdefault(path.name, _Inode())
        return _Held(self._locks, path)

    def copy(self) -> "MemoryFileSystem":
        """A copy of the current state, to check what a crash at this moment leaves."""
        after = MemoryFileSystem()
        after._root = deepcopy(self._root)
        return after

    def flip(self, path: Path, at: int, mask: int) -> None:
        """Change bits of one byte on the disk."""
        inode = self._find(path)
        assert isinstance(inode, _Inode)
        inode.content[at] ^= mask
        inode.durable = bytes(inode.content)

    def spoil(self, path: Path, begin: int, end: int) -> None:
        """Make reads of these bytes fail from now on."""
        inode = self._find(path)
        assert isinstance(inode, _Inode)
        inode.bad_bytes.append((begin, end))

    def lose(self, path: Path) -> None:
        """Remove a file, or a folder with everything in it."""
        folder = self._folder(path.parent)
        del folder.entries[path.name]
        folder.durable.pop(path.name, None)

    def process_killed(self) -> "MemoryFileSystem":
        """The file system after the process was killed.

        The next process sees the page cache, but for what an fsync could not write; locks are free.
        """
        after = MemoryFileSystem()
        after._root = self._root
        after.unreadable = self.unreadable
        _evict(after._root)
        return after

    def power_loss(self, rng: random.Random, *, keeps_names: bool = False) -> "MemoryFileSystem":
        """The file system after a power loss.

        Only durable names are left. Each file keeps a random, perhaps garbled, part of what was not fsynced.

        `keeps_names`: the first few of the unsynced name changes are left too, as journals keep them in order and write
        them at any time.
        """
        after = MemoryFileSystem()
        after._root = _survivor(self._root, rng, keeps_names)
        return after


def _nothing() -> None:
    pass


def _evict(folder: _Folder) -> None:
    for entry in folder.entries.values():
        if isinstance(entry, _Folder):
            _evict(entry)
        elif entry.is_dropped:
            entry.content[:] = entry.durable
            entry.is_dropped = False


def _used(folder: _Folder) -> int:
    below = folder.entries.values()
    return sum(_used(entry) if isinstance(entry, _Folder) else len(entry.content) for entry in below)


def _survivor(folder: _Folder, rng: random.Random, keeps_names: bool) -> _Folder:
    after = _Folder()
    left = rng.choice([folder.durable, *folder.since]) if keeps_names else folder.durable
    for name, entry in left.items():
        if isinstance(entry, _Folder):
            after.entries[name] = _survivor(entry, rng, keeps_names)
        else:
            inode = _Inode()
            inode.durable = _torn(entry, rng)
            inode.content[:] = inode.durable
            after.entries[name] = inode
    after.durable = dict(after.entries)
    return after


def _torn(inode: _Inode, rng: random.Random) -> bytes:
    durable, content = inode.durable, bytes(inode.content)
    if inode.is_dropped:
        return durable
    if not content.startswith(durable):
        return rng.choice([durable, content])
    tail = bytearray(content[len(durable) :])
    del tail[rng.randint(0, len(tail)) :]
    if tail and rng.random() < 0.5:
        at = rng.randrange(len(tail))
        tail[at:] = bytes(len(tail) - at)
    return durable + bytes(tail)
