"""downwardAPI volumes: fields of a pod's object as files, written again when the object changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.processes.process_kubelet.translate import field_value

Json = dict[str, Any]


def write_downward_files(pod: Json, folders: Mapping[str, Path]) -> None:
    """Write the files of all downwardAPI volumes; `folders` are those of the volumes, by name.

    A file changes atomically. The file of an absent annotation is empty, as under a kubelet.
    """
    address = pod.get("status", {}).get("podIP", "")
    for volume in pod["spec"].get("volumes", []):
        for item in volume.get("downwardAPI", {}).get("items", []):
            _write(folders[volume["name"]] / item["path"], field_value(pod, address, item["fieldRef"]["fieldPath"]))


def _write(file: Path, text: str) -> None:
    if file.exists() and file.read_text() == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}")
    fresh.write_text(text)
    fresh.rename(file)
