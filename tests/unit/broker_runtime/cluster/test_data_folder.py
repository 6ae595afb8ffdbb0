"""For a data folder that this user may not write, the error says what to do."""

import os
from pathlib import Path

import pytest

from broker_runtime.cluster.data_folder import make_data_folder
from broker_runtime.errors import ConfigError


def test_a_folder_is_made_with_its_parents_and_taken_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert make_data_folder(folder) == folder
    assert folder.is_dir()
    assert make_data_folder(folder) == folder


def test_the_error_for_a_foreign_volume_says_how_to_change_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.setattr(os, "getegid", lambda: 10001)
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigError) as refused:
        make_data_folder(tmp_path / "volume" / "data")
    said = str(refused.value)
    assert f"{tmp_path}/volume/data cannot be written by 10001:10001" in said
    assert f"{tmp_path} belongs to {tmp_path.stat().st_uid}:{tmp_path.stat().st_gid}, mode 0755" in said
    assert "Change its owner to 10001:10001" in said
    assert "hostPath" in said


def test_an_existing_folder_that_is_not_writable_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written by"):
        make_data_folder(tmp_path)


def test_a_path_below_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be created"):
        make_data_folder(tmp_path / "file" / "data")
