"""Writes folders as image layers: the same files give the same tar, independent of user and time."""

import hashlib
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODIFIED_S = 1_767_225_600
"""Modification time of every file in the image: 2026-01-01. Bytecode does not check it."""


@dataclass(frozen=True)
class Layer:
    """A layer of an image: its tar, uncompressed, so that its digest is also OCI's diff id."""

    path: Path
    digest: str
    size: int
    made_by: str


def write(root: Path, place: Path, made_by: str) -> Layer:
    """Write the content of `root` to a tar.

    Its files are owned by root, without setuid and setgid bits, and without `root` itself.
    """
    with tarfile.open(place, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in _below(root):
            entry = tar.gettarinfo(path, path.relative_to(root).as_posix())
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = MODIFIED_S
            entry.mode = _mode(entry)
            # Hard links become separate files: which of the two names is the link depends on how they were unpacked.
            if entry.islnk():
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            if entry.isreg():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            elif entry.isdir() or entry.issym():
                tar.addfile(entry)
    return Layer(place, digest_of(place), place.stat().st_size, made_by)


def digest_of(place: Path) -> str:
    with place.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"


def _mode(entry: tarfile.TarInfo) -> int:
    if entry.issym():
        return 0o777
    if entry.isdir():
        return 0o1777 if entry.name in ("tmp", "var/tmp") else 0o755
    return 0o755 if entry.mode & stat.S_IXUSR else 0o644


def _below(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
