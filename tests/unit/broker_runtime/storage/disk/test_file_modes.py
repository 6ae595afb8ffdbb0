"""Users outside of the broker's group can read nothing that it writes: the metadata log has secrets."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_runtime.cluster.data_folder import make_data_folder
from broker_runtime.storage.disk.filesystem import OsFileSystem


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("open_umask")
def test_new_folders_and_files_are_closed_to_others(tmp_path: Path) -> None:
    folder = make_data_folder(tmp_path / "data")
    fs = OsFileSystem()
    fs.mkdir(folder / "__cluster_metadata-0")
    fs.open(folder / "__cluster_metadata-0" / "log", create=True)
    fs.lock(folder / ".lock")
    assert mode(folder) == mode(folder / "__cluster_metadata-0") == 0o750
    assert mode(folder / "__cluster_metadata-0" / "log") == mode(folder / ".lock") == 0o640


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_data_folder(tmp_path)
    OsFileSystem().mkdir(tmp_path)
    assert mode(tmp_path) == 0o755
