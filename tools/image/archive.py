"""Packs layers and settings into one archive for `docker load`, `podman load`, `ctr images import` and OCI's tools.

It is an OCI layout with Docker's manifest.json beside OCI's index.json, as written by `docker save` since version 25.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.image.layer import MODIFIED_S, Layer

CREATED = "2026-01-01T00:00:00Z"
"""Creation time in the image, a constant: the same input must give the same digest."""

_OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class Documents:
    """The JSON files of an archive by their names in it, and the digest that identifies the image in a registry."""

    files: dict[str, bytes]
    digest: str


def documents(reference: str, config: dict[str, Any], layers: Sequence[Layer], architecture: str) -> Documents:
    """Return the JSON files of the archive, such as index.json and the image's manifest. Pure."""
    settings = _packed(
        {
            "architecture": architecture,
            "os": "linux",
            "created": CREATED,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
            "history": [{"created": CREATED, "created_by": layer.made_by} for layer in layers],
        }
    )
    manifest = _packed(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _described(f"{_OCI}.config.v1+json", settings),
            "layers": [
                {"mediaType": f"{_OCI}.layer.v1.tar", "digest": layer.digest, "size": layer.size} for layer in layers
            ],
        }
    )
    entry = _described(f"{_OCI}.manifest.v1+json", manifest)
    entry["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/{reference}",
        "org.opencontainers.image.ref.name": reference.partition(":")[2],
    }
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    for_docker = {
        "Config": _blob(_digest(settings)),
        "RepoTags": [reference],
        "Layers": [_blob(layer.digest) for layer in layers],
    }
    index = {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [entry]}
    files = {
        "oci-layout": _packed({"imageLayoutVersion": "1.0.0"}),
        "index.json": _packed(index),
        "manifest.json": _packed([for_docker]),
        _blob(_digest(settings)): settings,
        _blob(_digest(manifest)): manifest,
    }
    return Documents(files, _digest(manifest))


def artifact(
    tag: str, config_type: str, config: bytes, content_type: str, content: Layer, annotations: dict[str, str]
) -> Documents:
    """Return the JSON files of an archive whose one layer is no layer of an image, such as Helm's chart. Pure."""
    manifest = _packed(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _described(config_type, config),
            "layers": [{"mediaType": content_type, "digest": content.digest, "size": content.size}],
            "annotations": annotations,
        }
    )
    entry = _described(f"{_OCI}.manifest.v1+json", manifest)
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [entry]}
    files = {
        "oci-layout": _packed({"imageLayoutVersion": "1.0.0"}),
        "index.json": _packed(index),
        _blob(_digest(config)): config,
        _blob(_digest(manifest)): manifest,
    }
    return Documents(files, _digest(manifest))


def write(place: Path, described: Documents, layers: Sequence[Layer]) -> None:
    """Write the archive atomically: a complete draft is renamed to `place`."""
    draft = place.with_name(f".{place.name}.part")
    with tarfile.open(draft, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in described.files.items():
            tar.addfile(_entry(name, len(content)), io.BytesIO(content))
        for digest, layer in {layer.digest: layer for layer in layers}.items():
            with layer.path.open("rb") as content_of_layer:
                tar.addfile(_entry(_blob(digest), layer.size), content_of_layer)
    draft.replace(place)


def unpack(place: Path, root: Path) -> None:
    """Unpack the files of an archive's image, as a container would see them. Raises CalledProcessError."""
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place) as tar:
        for name in json.loads(_content(tar, "manifest.json").read())[0]["Layers"]:
            with subprocess.Popen(["tar", "-C", str(root), "-x"], stdin=subprocess.PIPE) as unpacking:
                if unpacking.stdin is not None:
                    shutil.copyfileobj(_content(tar, name), unpacking.stdin)
                    unpacking.stdin.close()
            if unpacking.returncode != 0:
                raise subprocess.CalledProcessError(unpacking.returncode, unpacking.args)


def _content(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not a file of the archive")
    return found


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o644, MODIFIED_S
    return entry


def _packed(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _described(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}
