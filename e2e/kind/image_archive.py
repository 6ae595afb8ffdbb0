"""A docker archive with one layer under many names: the control plane's images share all their programs."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

ENTRYPOINTS = {"coredns": ["/coredns"], "pause": ["/pause"]}
"""Entrypoints of two images. kubeadm's manifests have complete commands for the others."""


def write_images(archive: Path, root: Path, images: dict[str, str], architecture: str) -> None:
    """Write the archive. `images`: the reference of each image, by the name of its program."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as files:
        files.add(root, arcname=".")
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    with tarfile.open(archive, "w") as whole:
        whole.add(layer, arcname="layer.tar")
        listed = []
        for name, reference in sorted(images.items()):
            config = image_config(name, digest, architecture)
            file_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(whole, file_name, config)
            listed.append({"Config": file_name, "RepoTags": [reference], "Layers": ["layer.tar"]})
        _add(whole, "manifest.json", json.dumps(listed).encode())
    layer.unlink()


def image_config(name: str, layer_digest: str, architecture: str) -> bytes:
    document = {
        "architecture": architecture,
        "os": "linux",
        # Two images must have different configurations, because stores that key images by digest would merge them.
        "author": name,
        "created": "2020-01-01T00:00:00Z",
        "config": {
            "Entrypoint": ENTRYPOINTS.get(name),
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }
    return json.dumps(document, sort_keys=True).encode()


def _add(whole: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    whole.addfile(entry, io.BytesIO(content))
