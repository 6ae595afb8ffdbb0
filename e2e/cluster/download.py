"""Downloads released binaries and checks them against the sha256 sums that the release publishes beside them.

No address is hard-coded: SLUICEGATE_KUBE_DOWNLOAD_BASE names the Kubernetes release site or a mirror of it
(`<base>/v1.34.4/bin/linux/amd64/kubectl`, its sum in `kubectl.sha256`). SLUICEGATE_ETCD_DOWNLOAD_BASE names etcd's
(`<base>/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz`, its sum in `SHA256SUMS`). Without them nothing is downloaded. The
sums come from the same place as the files: they detect damage and mirrors that mix versions, but users who set a base
trust it.
"""

import hashlib
import os
import tarfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from e2e.cluster.binaries import ETCD_VERSION, KUBERNETES_VERSION, go_platform, is_of_kubernetes
from tests.support.obtain.cache import ObtainError

KUBE_BASE_VARIABLE = "SLUICEGATE_KUBE_DOWNLOAD_BASE"
ETCD_BASE_VARIABLE = "SLUICEGATE_ETCD_DOWNLOAD_BASE"

TIMEOUT_S = 60.0
CHUNK_BYTES = 1 << 20
SUMS_BYTES_MAX = 1 << 16
BINARY_BYTES_MAX = 512 << 20
"""Kubernetes' largest program has 100 MB; an endless answer must not fill the disk."""

Progress = Callable[[str], None]


def download_binary(name: str, folder: Path, progress: Progress) -> bool:
    """Put one program into `folder`. Returns False if no address was given for it, or none can be given."""
    if name != "etcd" and not is_of_kubernetes(name):
        return False
    base = os.environ.get(ETCD_BASE_VARIABLE if name == "etcd" else KUBE_BASE_VARIABLE, "").rstrip("/")
    if not base:
        return False
    try:
        if name == "etcd":
            _download_etcd(base, folder, progress)
        else:
            _download_kubernetes(name, base, folder, progress)
    except OSError as error:
        raise ObtainError(f"downloading {name} from {base} failed: {error}") from error
    return True


def _download_kubernetes(name: str, base: str, folder: Path, progress: Progress) -> None:
    system, machine = go_platform()
    url = f"{base}/{KUBERNETES_VERSION}/bin/{system}/{machine}/{name}"
    target = folder / name
    _fetch_checked(url, _read_text(f"{url}.sha256").split()[0], target, progress)
    target.chmod(0o755)


def _download_etcd(base: str, folder: Path, progress: Progress) -> None:
    system, machine = go_platform()
    archive = f"etcd-{ETCD_VERSION}-{system}-{machine}.tar.gz"
    lines = [line.split() for line in _read_text(f"{base}/{ETCD_VERSION}/SHA256SUMS").splitlines()]
    sums = {words[1]: words[0] for words in lines if len(words) == 2}
    if archive not in sums:
        raise ObtainError(f"{base}/{ETCD_VERSION}/SHA256SUMS has no sum for {archive}")
    packed = folder / archive
    _fetch_checked(f"{base}/{ETCD_VERSION}/{archive}", sums[archive], packed, progress)
    with tarfile.open(packed) as files:
        member = files.extractfile(f"{archive.removesuffix('.tar.gz')}/etcd")
        if member is None:
            raise ObtainError(f"{archive} holds no etcd")
        (folder / "etcd").write_bytes(member.read())
    (folder / "etcd").chmod(0o755)
    packed.unlink()


def _read_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        text: bytes = answer.read(SUMS_BYTES_MAX)
    return text.decode("ascii")


def _fetch_checked(url: str, sha256: str, target: Path, progress: Progress) -> None:
    progress(f"downloading {url}")
    digest = hashlib.sha256()
    size = 0
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, target.open("wb") as file:
        while chunk := answer.read(CHUNK_BYTES):
            size += len(chunk)
            if size > BINARY_BYTES_MAX:
                raise ObtainError(f"{url} is larger than {BINARY_BYTES_MAX >> 20} MB; that is no Kubernetes program")
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != sha256.lower():
        target.unlink()
        raise ObtainError(f"{url} has sha256 {digest.hexdigest()}, published is {sha256}; it was thrown away")
