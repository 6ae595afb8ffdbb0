"""The promises that the log relies on, checked on the real file system and its in-memory twin."""

import errno
import os
import random
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_runtime.storage.disk.filesystem import (
    Buffer,
    FileSystem,
    FsyncFailedError,
    OsFile,
    OsFileSystem,
    is_shortage,
    read_file,
    replace_file,
)
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem


@pytest.fixture(params=["os", "memory"])
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    made: FileSystem = OsFileSystem() if request.param == "os" else MemoryFileSystem()
    made.mkdir(tmp_path)
    return made


def test_buffers_are_written_in_order_at_the_position(fs: FileSystem, tmp_path: Path) -> None:
    file = fs.open(tmp_path / "a", create=True)
    file.write_at([b"abc", memoryview(b"defg"), bytearray(b"h")], 0)
    file.write_at([b"XY"], 2)
    assert file.pread(100, 0) == b"abXYefgh"
    assert file.pread(3, 4) == b"efg"
    assert file.pread(3, 8) == b""
    assert file.size() == 8


def test_open_without_create_needs_the_file_and_keeps_its_content(fs: FileSystem, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fs.open(tmp_path / "a")
    fs.open(tmp_path / "a", create=True).write_at([b"12"], 0)
    assert fs.open(tmp_path / "a").pread(9, 0) == b"12"
    assert fs.open(tmp_path / "a", create=True).size() == 0


def test_truncate_shortens_and_a_later_write_goes_on_there(fs: FileSystem, tmp_path: Path) -> None:
    file = fs.open(tmp_path / "a", create=True)
    file.write_at([b"abcdef"], 0)
    file.truncate(2)
    file.write_at([b"Z"], 2)
    file.fsync()
    assert read_file(fs, tmp_path / "a") == b"abZ"


def test_an_unlinked_or_renamed_file_stays_readable_through_its_reference(fs: FileSystem, tmp_path: Path) -> None:
    file = fs.open(tmp_path / "a", create=True)
    file.write_at([b"kept"], 0)
    fs.rename(tmp_path / "a", tmp_path / "b")
    assert fs.listdir(tmp_path) == ["b"]
    fs.unlink(tmp_path / "b")
    assert fs.listdir(tmp_path) == []
    assert file.pread(4, 0) == b"kept"
    with pytest.raises(FileNotFoundError):
        fs.unlink(tmp_path / "b")


def test_folders_are_made_listed_renamed_and_removed(fs: FileSystem, tmp_path: Path) -> None:
    fs.mkdir(tmp_path / "x" / "y")
    fs.mkdir(tmp_path / "x" / "y")
    fs.open(tmp_path / "x" / "y" / "f", create=True)
    assert fs.is_dir(tmp_path / "x" / "y")
    assert not fs.is_dir(tmp_path / "x" / "y" / "f")
    fs.fsync_dir(tmp_path / "x")
    fs.rename(tmp_path / "x", tmp_path / "z")
    assert fs.listdir(tmp_path / "z" / "y") == ["f"]
    assert not fs.exists(tmp_path / "x")
    with pytest.raises(OSError, match=r"not empty"):
        fs.rmdir(tmp_path / "z" / "y")
    fs.unlink(tmp_path / "z" / "y" / "f")
    fs.rmdir(tmp_path / "z" / "y")
    assert fs.listdir(tmp_path / "z") == []


def test_replace_file_swaps_the_whole_content(fs: FileSystem, tmp_path: Path) -> None:
    replace_file(fs, tmp_path / "c", b"a long first version")
    replace_file(fs, tmp_path / "c", b"second")
    assert read_file(fs, tmp_path / "c") == b"second"
    assert fs.listdir(tmp_path) == ["c"]


def test_a_failed_fsync_is_told_from_a_file_that_cannot_be_opened(fs: FileSystem, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fs.fsync_dir(tmp_path / "nowhere")
    file = fs.open(tmp_path / "a", create=True)
    if isinstance(fs, MemoryFileSystem):
        fs.failing_fsync = True
    else:
        # The system cannot sync a pipe.
        reads, writes = os.pipe()
        os.close(writes)
        file = OsFile(reads)
    with pytest.raises(FsyncFailedError) as failed:
        file.fsync()
    assert failed.value.errno in (errno.EIO, errno.EINVAL)
    assert not is_shortage(failed.value)


def test_a_shortage_of_descriptors_is_known_as_one(fs: FileSystem, tmp_path: Path) -> None:
    """A shortage is recognized for a file and for a folder."""
    fs.open(tmp_path / "a", create=True)
    uses: list[Callable[[], object]] = [
        lambda: fs.open(tmp_path / "a"),
        lambda: fs.fsync_dir(tmp_path),
        lambda: fs.listdir(tmp_path),
    ]
    for use in uses:
        with short_of_descriptors(fs), pytest.raises(OSError, match=r"[tT]oo many open files") as refused:
            use()
        assert is_shortage(refused.value)


@contextmanager
def short_of_descriptors(fs: FileSystem) -> Iterator[None]:
    if isinstance(fs, MemoryFileSystem):
        fs.no_descriptors = True
        yield
        fs.mend()
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_lock_is_exclusive_until_its_holder_goes(fs: FileSystem, tmp_path: Path) -> None:
    held = fs.lock(tmp_path / ".lock")
    with pytest.raises(BlockingIOError):
        fs.lock(tmp_path / ".lock")
    del held
    assert fs.lock(tmp_path / ".lock") is not None


def test_many_buffers_past_one_page_arrive_whole(fs: FileSystem, tmp_path: Path) -> None:
    parts = [bytes([number % 256]) * 1000 for number in range(500)]
    file = fs.open(tmp_path / "big", create=True)
    file.write_at(parts, 0)
    assert file.pread(500_000, 0) == b"".join(parts)


@pytest.mark.parametrize("count", [1023, 1024, 1025, 2048, 2049, 5000])
def test_one_write_takes_any_number_of_buffers(fs: FileSystem, tmp_path: Path, count: int) -> None:
    parts: list[Buffer] = [b"%d," % number for number in range(count)]
    parts[-1] = memoryview(parts[-1])
    file = fs.open(tmp_path / "many", create=True)
    file.write_at([b"head"], 0)
    file.write_at(parts, 4)
    assert read_file(fs, tmp_path / "many") == b"head" + b"".join(parts)


@pytest.mark.parametrize("seed", range(20))
def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    write_buffers, write_one = os.pwritev, os.pwrite

    def write_some_buffers(fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        data = b"".join(buffers)
        return write_buffers(fd, [data[: rng.randint(0, len(data))]], offset)

    def write_some(fd: int, data: Buffer, offset: int) -> int:
        return write_one(fd, data[: rng.randint(1, len(data))], offset)

    monkeypatch.setattr(os, "pwritev", write_some_buffers)
    monkeypatch.setattr(os, "pwrite", write_some)
    parts: list[Buffer] = [rng.randbytes(rng.randint(0, 40)) for _ in range(rng.choice([1, 2, 500, 1024, 1025, 3000]))]
    at = rng.randint(0, 3)
    fs = OsFileSystem()
    fs.open(tmp_path / "a", create=True).write_at(parts, at)
    assert read_file(fs, tmp_path / "a") == bytes(at) + b"".join(parts)


def test_a_write_without_progress_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem().open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "pwritev", lambda _fd, _buffers, _offset: 0)
    monkeypatch.setattr(os, "pwrite", lambda _fd, _data, _offset: 0)
    with pytest.raises(OSError, match="no progress") as failed:
        file.write_at([b"abc"] * 3000, 0)
    assert failed.value.errno == errno.EIO


def test_there_is_room_until_something_takes_it(fs: FileSystem, tmp_path: Path) -> None:
    assert fs.free_bytes(tmp_path) > 0
    with pytest.raises(FileNotFoundError):
        fs.free_bytes(tmp_path / "nowhere")
    if isinstance(fs, MemoryFileSystem):
        fs.capacity_bytes = 5
        fs.open(tmp_path / "a", create=True).write_at([b"abc"], 0)
        assert fs.free_bytes(tmp_path) == 2
