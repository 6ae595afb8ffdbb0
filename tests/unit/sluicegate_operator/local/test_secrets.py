"""Secrets in files: private, kept, and with a version that changes with their data."""

import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.kube.http.errors import NameTakenError
from sluicegate_operator.local.secrets import LocalSecrets, write_private


def manifest(owner: str = "local-1", rotation: str = "", **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": "billing",
        "namespace": "default",
        "ownerReferences": [{"kind": "KafkaUser", "uid": owner}],
    }
    if rotation:
        metadata["annotations"] = {"sluicegate.dev/rotate": rotation}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": metadata, "data": encoded}


def test_a_secret_is_files_for_their_owner_alone_and_outlives_the_process(tmp_path: Path) -> None:
    stored = LocalSecrets(tmp_path / "secrets").apply(manifest(rotation="2026", password="quiet"))

    again = LocalSecrets(tmp_path / "secrets")
    assert again.find("default", "billing") == stored
    assert stored.data == {"password": b"quiet"}
    assert (stored.annotations, stored.owner) == ({"sluicegate.dev/rotate": "2026"}, "local-1")
    folder = again.path("default", "billing")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert "quiet" not in repr(stored)


def test_the_version_changes_with_the_data_alone(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path)
    first = secrets.apply(manifest(password="one", username="billing"))
    of_another_run = secrets.apply(manifest(owner="local-7", password="one", username="billing"))
    assert of_another_run.version == first.version
    assert of_another_run.owner == "local-7"

    path = tmp_path / "default" / "billing" / "password"
    path.write_text("two")
    os.utime(path, ns=(0, int(first.version) + 1))
    edited = secrets.find("default", "billing")
    assert edited is not None
    assert edited.version != first.version
    assert secrets.apply(manifest(username="billing")).data == {"username": b"billing"}


def test_a_secret_of_the_user_has_no_version_and_is_not_removed(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path)
    assert secrets.find("default", "own") is None
    write_private(tmp_path / "default" / "own" / "tls.crt", "pem")
    found = secrets.find("default", "own")
    assert found is not None
    assert (found.version, found.data) == ("", {"tls.crt": b"pem"})
    secrets.remove_owned("default", "own", "")
    assert secrets.find("default", "own") == found


def test_files_that_the_user_has_put_there_are_neither_taken_over_nor_changed(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path)
    write_private(tmp_path / "default" / "billing" / "password", "the user's")
    for act in (secrets.find_own, secrets.apply):
        with pytest.raises(NameTakenError, match="move them to another folder, or create the KafkaUser with another"):
            act(manifest(password="quiet"))
    found = secrets.find("default", "billing")
    assert found is not None
    assert found.data == {"password": b"the user's"}


def test_only_the_owner_takes_its_secret_along(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path)
    secrets.apply(manifest(owner="local-2", password="quiet"))
    secrets.remove_owned("default", "billing", "local-1")
    assert secrets.find("default", "billing") is not None
    secrets.remove_owned("default", "billing", "local-2")
    assert secrets.find("default", "billing") is None


def test_a_damaged_note_names_the_folder_to_remove(tmp_path: Path) -> None:
    secrets = LocalSecrets(tmp_path)
    secrets.apply(manifest(password="quiet"))
    (tmp_path / "default" / "billing" / ".written.json").write_text("{")
    with pytest.raises(DataDirError, match=r"remove .*billing for a new Secret"):
        secrets.find("default", "billing")
