"""The node image, built once and kept as the folder of a Docker daemon that has only this image.

A cluster's daemon starts with a separate folder, in which the image's files are links to these. That takes a second at
most, and neither a cluster nor its kill can change the image.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster.binaries import KUBERNETES_VERSION, go_platform
from e2e.cluster.process import Program
from e2e.cluster.waiting import wait_for
from e2e.kind.daemon import Daemon
from e2e.kind.image_archive import write_images
from e2e.kind.node_root import furnish, furnish_control_plane
from e2e.kind.packages import unpack
from e2e.kind.places import IMAGE, NODE_PACKAGES, RUN_ROOT, ClusterPlace, packages_folder, program, store_folder
from e2e.kind.tools import with_libraries
from tests.support.obtain.cache import ObtainError, obtained, show

IMPORT_TIMEOUT_S = 600
_ENTRYPOINT = ["/usr/local/bin/entrypoint", "/sbin/init"]


def obtain_store() -> Path:
    """Return the folder of the store, and build it if necessary. Raises ObtainError."""
    return obtained(store_folder(), lambda folder: (folder / "complete").exists(), _make)


def link(disks: Path) -> None:
    """Create a daemon's folder that has the node image."""
    disks.mkdir(parents=True)
    shutil.copytree(store_folder() / "docker/image", disks / "image")
    _run("cp", "--archive", "--link", store_folder() / "docker/overlay2", disks / "overlay2")


def _make(fresh: Path) -> None:
    packages = obtained(packages_folder(), lambda folder: (folder / "sbin/init").is_symlink(), _unpack_node)
    scratch = fresh.parent
    root, control_plane = scratch / "root", scratch / "control-plane"
    show("kind", "putting a node together")
    _run("cp", "--archive", packages, root)
    furnish(root)
    furnish_control_plane(control_plane, root)
    images = {reference.rpartition("/")[2].partition(":")[0]: reference for reference in _images()}
    settings = root / "etc/containerd/config.toml"
    settings.write_text(settings.read_text().replace("PAUSE-IMAGE", images["pause"]))
    archive = scratch / "images.tar"
    write_images(archive, control_plane, images, go_platform()[1])
    shutil.rmtree(control_plane)
    _load_into_root(archive, root, scratch)
    archive.unlink()
    _import(root, fresh)
    (fresh / "complete").touch()


def _unpack_node(fresh: Path) -> None:
    unpack(NODE_PACKAGES, fresh, whole=True)


def _images() -> list[str]:
    """Return the names of the images that kubeadm will request."""
    return _run(program("kubeadm"), "config", "images", "list", "--kubernetes-version", KUBERNETES_VERSION).split()


def _load_into_root(archive: Path, root: Path, scratch: Path) -> None:
    """Unpack the images with a containerd whose folder is the node's."""
    show("kind", "unpacking the control plane's images into the node")
    socket, folder = RUN_ROOT / f"load-{os.getpid()}.sock", root / "var/lib/containerd"
    RUN_ROOT.mkdir(parents=True, exist_ok=True)
    settings = scratch / "containerd.toml"
    settings.write_text(
        f'version = 2\nroot = "{folder}"\nstate = "{scratch / "containerd"}"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "{socket}"\n'
    )
    environment = with_libraries(ClusterPlace("build").environment())
    containerd = Program(["containerd", "-c", str(settings)], scratch / "containerd.log", environment)

    def listens() -> bool:
        containerd.must_run()
        return socket.exists()

    try:
        wait_for("containerd listens", listens)
        _run("ctr", "-a", socket, "-n", "k8s.io", "images", "import", archive, environment=environment)
    finally:
        containerd.stop()
        for left in RUN_ROOT.glob(f"load-{os.getpid()}.sock*"):
            left.unlink()
    # Layers are not read again after they are unpacked.
    for blob in (folder / "io.containerd.content.v1.content/blobs/sha256").iterdir():
        if blob.stat().st_size > 10 << 20:
            blob.unlink()


def _import(root: Path, fresh: Path) -> None:
    show("kind", "importing the node image into Docker")
    place = ClusterPlace(f"build-{os.getpid()}")
    daemon = Daemon(fresh / "docker", place.run, place.environment)
    daemon.start()
    try:
        changes = [f"ENTRYPOINT {json.dumps(_ENTRYPOINT)}", "ENV container=docker"]
        options = [word for change in changes for word in ("--change", change)]
        with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as reading:
            done = subprocess.run(
                ["docker", "import", *options, "-", IMAGE],
                env=place.environment(),
                stdin=reading.stdout,
                capture_output=True,
                text=True,
                timeout=IMPORT_TIMEOUT_S,
                check=False,
            )
        if done.returncode != 0 or reading.returncode != 0:
            raise ObtainError(f"docker import of the node image failed: {done.stderr.strip()}")
    finally:
        daemon.end()
        shutil.rmtree(place.run, ignore_errors=True)


def _run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=IMPORT_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ObtainError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout
