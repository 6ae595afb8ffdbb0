"""The interface between the log and the operating system's files.

Owns the two protocols and their implementation on a real disk. `tests/support/fakes/disks/memory_filesystem.py` is the
twin that fails on command; both pass tests/contract/test_filesystem.py. Knows nothing of records or segments.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview
BUFFERS_PER_CALL = os.sysconf("SC_IOV_MAX")
"""Limit of buffers of one `pwritev`, 1,024 on Linux. A call with more raises EINVAL."""
_SHORTAGES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR))


class FsyncFailedError(OSError):
    """Error of a failed fsync itself.

    The kernel may have dropped the pages, so no later fsync shows what is on the disk.
    """


def is_shortage(error: OSError) -> bool:
    """Return whether the system call lacked descriptors or memory: then nothing is lost, and a retry may work."""
    return error.errno in _SHORTAGES and not isinstance(error, FsyncFailedError)


class File(Protocol):
    """An open file, which closes with its last reference. So a deleted segment may still be read."""

    def fileno(self) -> int:
        """Return the file's descriptor for sendfile. Raises OSError if the file has none."""
        ...

    def size(self) -> int: ...

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def write_at(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all the buffers, however many, one after another from `offset`.

        Raises OSError with any part of them written.
        """
        ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None:
        """Make the content of the file durable. Raises FsyncFailedError."""
        ...


class FileSystem(Protocol):
    """Paths and folders of a file system.

    Names become durable with `fsync_dir` of their folder, contents with `File.fsync`.
    """

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open a file for reading and writing; with `create` an existing file is emptied."""
        ...

    def exists(self, path: Path) -> bool: ...

    def is_dir(self, path: Path) -> bool: ...

    def listdir(self, path: Path) -> list[str]: ...

    def mkdir(self, path: Path) -> None:
        """Create the folder and its parents; an existing folder is accepted."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or folder atomically. An existing file of the new name is replaced."""
        ...

    def unlink(self, path: Path) -> None: ...

    def rmdir(self, path: Path) -> None: ...

    def fsync_dir(self, path: Path) -> None:
        """Make the names in the folder durable.

        Raises FsyncFailedError, or another OSError if the folder cannot be opened.
        """
        ...

    def free_bytes(self, path: Path) -> int:
        """Return the number of bytes that may still be written to the file system of this folder."""
        ...

    def lock(self, path: Path) -> object:
        """Lock the file exclusively for as long as the result lives.

        Raises BlockingIOError if another process has locked it.
        """
        ...


def read_file(fs: FileSystem, path: Path) -> bytes:
    file = fs.open(path)
    return file.pread(file.size(), 0)


def draft_of(path: Path) -> Path:
    """Return the path of the file that `replace_file` writes before it renames that file."""
    return path.with_name(path.name + ".tmp")


def replace_file(fs: FileSystem, path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a small file so that a crash leaves either the old content or the new content.

    Without `sync` that holds for a killed process; a power loss may leave an empty or a torn file.
    """
    draft = draft_of(path)
    file = fs.open(draft, create=True)
    file.write_at([content], 0)
    if sync:
        file.fsync()
    fs.rename(draft, path)
    if sync:
        fs.fsync_dir(path.parent)


def _fsync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise FsyncFailedError(error.errno, error.strerror) from error


class OsFile:
    """A file descriptor of the operating system. Failures raise OSError."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def write_at(self, buffers: Sequence[Buffer], offset: int) -> None:
        if len(buffers) > BUFFERS_PER_CALL:
            for start in range(0, len(buffers), BUFFERS_PER_CALL):
                offset += self._write_some(buffers[start : start + BUFFERS_PER_CALL], offset)
        else:
            self._write_some(buffers, offset)

    def _write_some(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Write at most as many buffers as one call takes; returns how many bytes they have."""
        total = 0
        for buffer in buffers:
            total += len(buffer)
        done = os.pwritev(self._fd, buffers, offset)
        if done != total:
            self._complete(buffers, offset, done)
        return total

    def _complete(self, buffers: Sequence[Buffer], offset: int, done: int) -> None:
        """Write the rest after a short write (a full disk, a signal, over 2 GiB). Raises the system's OSError."""
        rest = memoryview(b"".join(buffers))[done:]
        at = offset + done
        while rest:
            written = os.pwrite(self._fd, rest, at)
            if written == 0:
                raise OSError(errno.EIO, "a write made no progress")
            rest = rest[written:]
            at += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        _fsync(self._fd)

    def __del__(self) -> None:
        os.close(self._fd)


FOLDER_MODE, _FILE_MODE = 0o750, 0o640
"""Permissions of new folders and files, which the umask may narrow.

Other users get none, because logs contain secrets.
"""


class OsFileSystem:
    """The operating system's file system. Failures raise OSError."""

    def open(self, path: Path, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_TRUNC
        return OsFile(os.open(path, flags, _FILE_MODE))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        return path.is_dir()

    def listdir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: Path) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def lock(self, path: Path) -> OsFile:
        file = OsFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
