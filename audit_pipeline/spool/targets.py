"""The places of segments: a folder, or an object store through Arrow's file systems.

A file appears complete or not at all. Paths are relative to the target and have forward slashes.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
from pyarrow import fs

from audit_pipeline.errors import BadUseError

SUFFIX = ".parquet"
DRAFT_PREFIX = "_"
"""Beginning of the names of drafts. Spark ignores files whose names begin so."""
TOPIC_SCHEME: Final = "kafka:"
"""Prefix of names of topics, which are not places of files."""


class Stored(NamedTuple):
    """A file of the audit log in a folder or object store.

    `changed_ns` is the time of its last change; None if the store does not report it.
    """

    path: str
    size: int
    changed_ns: int | None = None


class Target(Protocol):
    """A folder or object store that receives the files of the audit log. Methods raise OSError if the store fails."""

    @property
    def file_system(self) -> fs.FileSystem:
        """Return the file system for readers. Paths of the target are relative to its root."""
        ...

    @property
    def sees_others(self) -> bool:
        """Return whether `upkeep` detects other processes."""
        ...

    def local_path(self, path: str) -> Path | None:
        """Return a path for other programs that read and write files, such as Spark; None in an object store."""
        ...

    def make(self) -> None:
        """Create the target if necessary, so that it can be written."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write a file, and replace one of that name. The file is durable when this returns."""
        ...

    def place(self, path: str, to: str) -> None:
        """Move a file that another program has written to its name, in any folder.

        The file is durable when this returns.
        """
        ...

    def rename(self, path: str, to: str) -> None: ...

    def delete(self, path: str) -> None:
        """Delete a file. A missing file is ignored."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with its content. A missing folder is ignored."""
        ...

    def files(self, folder: str = "") -> Iterator[Stored]:
        """Yield all files below a folder, sorted by name, including drafts."""
        ...

    def upkeep(self) -> AbstractContextManager[bool]:
        """Yield whether no other process compacts, expires or builds meanwhile; True if that cannot be detected."""
        ...

    def clean(self, is_put: Callable[[str], bool], unchanged_s: float = 0.0) -> None:
        """Remove unfinished files of killed writers: those unchanged for `unchanged_s`. Active writers need less time.

        `is_put` selects the paths that the caller writes here. An unfinished file of any other path belongs to another
        program, and stays.
        """
        ...


def open_target(uri: str) -> Target:
    """Open a target: a path, or a URI of pyarrow.fs.FileSystem.from_uri. Raises BadUseError.

    For example s3://bucket/path?endpoint_override=...
    """
    if not uri.strip():
        raise BadUseError(
            "the name of the folder is empty: give a folder, or a URI such as s3://bucket/path?region=eu-central-1"
        )
    if uri.startswith(TOPIC_SCHEME):
        raise BadUseError(
            f"{uri} is a topic, but a folder or URI is needed here; for a folder of that name write ./{uri}"
        )
    if "://" not in uri:
        return FolderTarget(_folder(uri))
    try:
        file_system, root = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as error:
        raise BadUseError(
            f"{uri} is not a target: give a folder, or a URI such as s3://bucket/path?region=eu-central-1 ({error})"
        ) from None
    if isinstance(file_system, fs.LocalFileSystem):
        return FolderTarget(_folder(root))
    return StoreTarget(file_system, root)


def _folder(name: str) -> Path:
    """Return a folder that exists or can be created. Raises BadUseError."""
    path = Path(name).absolute()
    for each in (path, *path.parents):
        if each.exists() and not each.is_dir():
            raise BadUseError(f"{each} is a file: give a folder")
    return path


class FolderTarget:
    """A target in a folder of a local file system."""

    sees_others: Final = True

    def __init__(self, root: Path) -> None:
        # Arrow parses a relative path with a colon as a URI, and ends the process.
        self._root = root.absolute()
        self.file_system: fs.FileSystem = fs.SubTreeFileSystem(str(self._root), fs.LocalFileSystem())

    def local_path(self, path: str) -> Path:
        return self._root / path

    def make(self) -> None:
        self._make_folder(self._root)

    def put(self, path: str, data: bytes) -> None:
        target = self._root / path
        self._make_folder(target.parent)
        # Other landers of the same spool have different drafts, and finally the same file. Containers all have the same
        # process ID, so the name is random.
        draft = target.with_name(f"{DRAFT_PREFIX}{target.name}.{int.from_bytes(os.urandom(8))}")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, target)
        _sync(target.parent)

    def place(self, path: str, to: str) -> None:
        _sync(self._root / path)
        self._make_folder((self._root / to).parent)
        self.rename(path, to)

    def rename(self, path: str, to: str) -> None:
        os.rename(self._root / path, self._root / to)
        _sync((self._root / to).parent)

    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def remove_folder(self, path: str) -> None:
        shutil.rmtree(self._root / path, ignore_errors=not (self._root / path).exists())

    def files(self, folder: str = "") -> Iterator[Stored]:
        return _files(self.file_system, folder)

    @contextmanager
    def upkeep(self) -> Iterator[bool]:
        try:
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            yield True
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_alone = True
        except BlockingIOError:
            is_alone = False
        except OSError:
            # The file system does not support locks on folders.
            is_alone = True
        try:
            yield is_alone
        finally:
            os.close(descriptor)

    def clean(self, is_put: Callable[[str], bool], unchanged_s: float = 0.0) -> None:
        for found in self._root.rglob(f"{DRAFT_PREFIX}*.*"):
            name, _, number = found.name.removeprefix(DRAFT_PREFIX).rpartition(".")
            becomes = found.relative_to(self._root).with_name(name) if name else None
            if becomes is None or not (number.isascii() and number.isdecimal() and is_put(becomes.as_posix())):
                continue
            # Its writer may rename it meanwhile.
            with suppress(FileNotFoundError):
                if found.is_file() and time.time() - found.stat().st_mtime >= unchanged_s:
                    found.unlink()

    def _make_folder(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            _sync(each.parent)


class StoreTarget:
    """A target in an object store: an object appears once it has been uploaded completely."""

    sees_others: Final = False

    def __init__(self, file_system: fs.FileSystem, root: str) -> None:
        self.file_system: fs.FileSystem = fs.SubTreeFileSystem(root, file_system)

    def local_path(self, path: str) -> None:
        return None

    def make(self) -> None:
        """Do nothing: an object store has no folders, only names that look like paths."""

    def upkeep(self) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def clean(self, is_put: Callable[[str], bool], unchanged_s: float = 0.0) -> None:
        """Do nothing: an incomplete upload leaves no object."""

    def put(self, path: str, data: bytes) -> None:
        with self.file_system.open_output_stream(path) as stream:
            stream.write(pa.py_buffer(data))

    def place(self, path: str, to: str) -> None:
        self.rename(path, to)

    def rename(self, path: str, to: str) -> None:
        self.file_system.move(path, to)

    def delete(self, path: str) -> None:
        try:
            self.file_system.delete_file(path)
        except FileNotFoundError:
            return

    def remove_folder(self, path: str) -> None:
        for stored in self.files(path):
            self.delete(stored.path)

    def files(self, folder: str = "") -> Iterator[Stored]:
        return _files(self.file_system, folder)


def _files(file_system: fs.FileSystem, folder: str) -> Iterator[Stored]:
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
    found = [info for info in file_system.get_file_info(selector) if info.type == fs.FileType.File]
    return (Stored(info.path, info.size, info.mtime_ns) for info in sorted(found, key=lambda info: info.path))


def _sync(path: Path) -> None:
    """Flush a file, or the list of files in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
