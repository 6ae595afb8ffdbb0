"""Secrets of `sluicegate up`: folders of files in its data folder, one file for each key, for their owner alone.

DIR/secrets/NAMESPACE/NAME/KEY. Users may put Secrets of their own there. `.written.json` marks a Secret that `up` has
written, with its annotations and its owner.
"""

import base64
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluicegate_operator.engine.context.context import StoredSecret
from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.kube.http.errors import NameTakenError

_WRITTEN = ".written.json"


class LocalSecrets:
    """The Secrets of `sluicegate up`, in a folder.

    Methods raise DataDirError if the folder cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, namespace: str, name: str) -> Path:
        """Return the folder in which a Secret is stored."""
        return self._folder / namespace / name

    def find(self, namespace: str, name: str) -> StoredSecret | None:
        """Return a Secret; None if it does not exist. Its version is empty if `up` has not written it."""
        folder = self.path(namespace, name)
        try:
            paths = [path for path in folder.iterdir() if path.name[0] != "."]
            data = {path.name: path.read_bytes() for path in paths}
            changed_ns = max((path.stat().st_mtime_ns for path in paths), default=0)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DataDirError(f"{folder}: {error.strerror}; make the files of the Secret readable") from error
        if not data:
            return None
        written = _written(folder)
        version = str(changed_ns) if written is not None else ""
        known = written or {}
        return StoredSecret(data, version, known.get("annotations", {}), known.get("owner", ""))

    def find_own(self, child: Mapping[str, Any]) -> StoredSecret | None:
        """Return the Secret with the name of the manifest `child` if `up` has written it; None if it does not exist.

        Raises NameTakenError for a Secret of the user.
        """
        meta = child["metadata"]
        found = self.find(meta["namespace"], meta["name"])
        if found is not None and not found.version:
            owner = next((one["kind"] for one in meta.get("ownerReferences", ())), "object")
            raise NameTakenError(
                f"`sluicegate up` has not written the files in {self.path(meta['namespace'], meta['name'])}, and does"
                f" not change them: move them to another folder, or create the {owner} with another name"
            )
        return found

    def apply(self, manifest: Mapping[str, Any]) -> StoredSecret:
        """Write a Secret into its folder.

        Its version changes with its data, also when another program changes a file. Raises NameTakenError for a Secret
        of the user.
        """
        metadata = manifest["metadata"]
        data = {key: base64.b64decode(value) for key, value in manifest["data"].items()}
        owner = next((one["uid"] for one in metadata.get("ownerReferences", ())), "")
        written = {"annotations": metadata.get("annotations", {}), "owner": owner}
        folder = self.path(metadata["namespace"], metadata["name"])
        before = self.find_own(manifest)
        kept = before.data if before is not None else {}
        for key, value in data.items():
            if kept.get(key) != value:
                _write(folder / key, value)
        for key in kept.keys() - data.keys():
            (folder / key).unlink(missing_ok=True)
        write_private(folder / _WRITTEN, json.dumps(written))
        return self.find(metadata["namespace"], metadata["name"]) or StoredSecret(data, "")

    def remove_owned(self, namespace: str, name: str, owner: str) -> None:
        """Remove a Secret if `up` has written it for the object with the uid `owner`."""
        found = self.find(namespace, name)
        if found is not None and owner and found.owner == owner:
            shutil.rmtree(self.path(namespace, name), ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, unless it already has this text. Raises DataDirError."""
    if not path.exists() or path.read_text() != text:
        _write(path, text.encode())


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, for its owner alone."""
    draft = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        raise DataDirError(f"{path}: {error.strerror}; give another folder with --data-dir") from error


def _written(folder: Path) -> dict[str, Any] | None:
    """Return the note that `up` stored when it wrote the Secret; None if it did not write the Secret."""
    path = folder / _WRITTEN
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataDirError(f"{path} cannot be read: {error}; remove {folder} for a new Secret") from None
    return found
