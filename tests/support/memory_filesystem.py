"""The in-memory twin of `OsFileSystem`: the same contract, and failures on command.

It keeps apart what a process sees (the page cache) and what the disk has: contents become durable with `fsync`, names
with `fsync_dir`. `power_loss` returns the file system as the next boot would find it.
"""

import errno
import random
from collections.abc import Sequence
from pathlib import Path

from broker_runtime.storage.filesystem import Buffer


class _Inode:
    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""


class MemoryFile:
    def __init__(self, fs: "MemoryFileSystem", inode: _Inode) -> None:
        self._fs = fs
        self._inode = inode

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def size(self) -> int:
        return len(self._inode.content)

    def pread(self, size: int, offset: int) -> bytes:
        return bytes(self._inode.content[offset : offset + size])

    def write_at(self, buffers: Sequence[Buffer], offset: int) -> None:
        data = b"".join(buffers)
        content = self._inode.content
        room = self._fs.room_for(offset + len(data) - len(content))
        fits = min(len(data), max(0, len(content) - offset) + room)
        if offset > len(content):
            content += bytes(offset - len(content))
        content[offset : offset + fits] = data[:fits]
        if fits < len(data):
            raise OSError(errno.ENOSPC, "no space left on device")

    def truncate(self, size: int) -> None:
        self._fs.check_writable()
        content = self._inode.content
        content += bytes(max(0, size - len(content)))
        del content[size:]

    def fsync(self) -> None:
        self._fs.check_fsync()
        self._inode.durable = bytes(self._inode.content)


class _Held:
    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path
        locks.add(path)

    def __del__(self) -> None:
        self._locks.discard(self._path)


class MemoryFileSystem:
    """`capacity_bytes` limits all contents together; `failing_fsync` and `read_only` make those calls raise EIO."""

    def __init__(self) -> None:
        self.capacity_bytes: int | None = None
        self.failing_fsync = False
        self.read_only = False
        self.fsyncs = 0
        self._files: dict[Path, _Inode] = {}
        self._folders: set[Path] = {Path("/")}
        self._durable_files: dict[Path, _Inode] = {}
        self._durable_folders: set[Path] = {Path("/")}
        self._locks: set[Path] = set()

    def room_for(self, extra: int) -> int:
        if self.capacity_bytes is None:
            return max(extra, 0)
        used = sum(len(inode.content) for inode in self._files.values())
        return max(0, min(extra, self.capacity_bytes - used))

    def check_writable(self) -> None:
        if self.read_only:
            raise OSError(errno.EIO, "input/output error")

    def check_fsync(self) -> None:
        self.fsyncs += 1
        if self.failing_fsync:
            raise OSError(errno.EIO, "input/output error")

    def open(self, path: Path, *, create: bool = False) -> MemoryFile:
        inode = self._files.get(path)
        if create:
            self._need_folder(path.parent)
            self.check_writable()
            if inode is None:
                if self.capacity_bytes == 0:
                    raise OSError(errno.ENOSPC, "no space left on device")
                inode = self._files[path] = _Inode()
            inode.content.clear()
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return MemoryFile(self, inode)

    def _need_folder(self, path: Path) -> None:
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))

    def exists(self, path: Path) -> bool:
        return path in self._files or path in self._folders

    def is_dir(self, path: Path) -> bool:
        return path in self._folders

    def listdir(self, path: Path) -> list[str]:
        self._need_folder(path)
        entries = [*self._files, *self._folders]
        return sorted(entry.name for entry in entries if entry.parent == path and entry != path)

    def mkdir(self, path: Path) -> None:
        self._folders.update([path, *path.parents])

    def rename(self, source: Path, target: Path) -> None:
        if source in self._folders:
            self._files = {_moved(path, source, target): inode for path, inode in self._files.items()}
            self._folders = {_moved(path, source, target) for path in self._folders}
        elif source in self._files:
            self._files[target] = self._files.pop(source)
        else:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(source))

    def unlink(self, path: Path) -> None:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        del self._files[path]

    def rmdir(self, path: Path) -> None:
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "folder not empty", str(path))
        self._folders.discard(path)

    def fsync_dir(self, path: Path) -> None:
        self._need_folder(path)
        self.check_fsync()
        gone = {entry for entry in self._durable_folders if entry.parent == path and entry not in self._folders}
        self._durable_folders = {
            entry for entry in self._durable_folders if not (gone & {entry, *entry.parents})
        } | {entry for entry in self._folders if entry.parent == path}
        self._durable_files = {
            entry: inode
            for entry, inode in self._durable_files.items()
            if entry.parent != path and not (gone & set(entry.parents))
        } | {
            entry: inode
            for entry, inode in self._files.items()
            if path in entry.parents and (entry.parent == path or entry.parent not in self._durable_with_files())
        }

    def _durable_with_files(self) -> set[Path]:
        return {entry.parent for entry in self._durable_files}

    def lock(self, path: Path) -> _Held:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", str(path))
        if path not in self._files:
            self._files[path] = _Inode()
        return _Held(self._locks, path)

    def process_killed(self) -> "MemoryFileSystem":
        """The next process sees the whole page cache; locks are gone."""
        after = MemoryFileSystem()
        after._files, after._folders = self._files, self._folders
        after._durable_files, after._durable_folders = self._durable_files, self._durable_folders
        return after

    def power_loss(self, rng: random.Random) -> "MemoryFileSystem":
        """Only durable names are left; of what was not fsynced each file keeps a random, perhaps garbled, part."""
        after = MemoryFileSystem()
        after._folders = set(self._durable_folders)
        copies: dict[int, _Inode] = {}
        for path, inode in self._durable_files.items():
            copy = copies.setdefault(id(inode), _Inode())
            copy.content[:] = _torn(inode, rng)
            copy.durable = bytes(copy.content)
            after._files[path] = copy
        after._durable_files, after._durable_folders = dict(after._files), set(after._folders)
        return after


def _moved(path: Path, source: Path, target: Path) -> Path:
    return target / path.relative_to(source) if path == source or source in path.parents else path


def _torn(inode: _Inode, rng: random.Random) -> bytes:
    durable, content = inode.durable, bytes(inode.content)
    if not content.startswith(durable):
        return rng.choice([durable, content])
    tail = bytearray(content[len(durable) :])
    del tail[rng.randint(0, len(tail)) :]
    if tail and rng.random() < 0.5:
        at = rng.randrange(len(tail))
        tail[at:] = bytes(len(tail) - at)
    return durable + bytes(tail)
