"""A docker archive with one layer under many names: the control plane's images share all their programs."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

ENTRYPOINTS = {"coredns": ["/coredns"], "pause": ["/pause"]}
"""The others' commands are said whole by kubeadm's manifests."""


def write_images(archive: Path, root: Path, images: dict[str, str], architecture: str) -> None:
    """`images`: the reference of each, by the name of the program in it."""
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
        # Two images must not have one configuration: they would be one image to whoever keeps them by its digest.
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
