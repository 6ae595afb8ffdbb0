"""The lowest layer: unpacked Debian packages, and the changes that their maintainer scripts would have made."""

import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from tools.image.apt import Package
from tools.image.definition import USER_ID
from tools.image.errors import ImageError
from tools.image.trimming import unneeded_of_debian

_MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
"""Folders that are links into usr, as in Debian since 12."""

_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
    f"sluicegate:x:{USER_ID}:{USER_ID}:sluicegate:/tmp:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nsluicegate:x:{USER_ID}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}
_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "usr/local/bin", "var/lib", "var/tmp")


def make(root: Path, packages: Iterable[Package], files: Iterable[Path]) -> str:
    """Fill `root` with the packages, and return the version of its Python, such as "3.11". Raises ImageError."""
    for folder in (*_FOLDERS, *(f"usr/{merged}" for merged in _MERGED)):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for merged in _MERGED:
        (root / merged).symlink_to(f"usr/{merged}")
    for package, file in zip(packages, files, strict=True):
        _unpack(file, root)
        _note(root, package, file)
    for name, text in _FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    _certificates(root)
    _java(root)
    for merged in _MERGED:
        if not any((root / "usr" / merged).iterdir()):
            (root / merged).unlink()
            (root / "usr" / merged).rmdir()
    return _python(root)


def _unpack(file: Path, root: Path) -> None:
    """Unpack a package without ownership and special files, which an image of programs does not need."""
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(file)], stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as tar,
    ):
        for entry in tar:
            path = merged(entry.name)
            if not path or unneeded_of_debian(f"{path}/" if entry.isdir() else path):
                continue
            place = root / path
            if entry.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            if entry.issym():
                place.symlink_to(entry.linkname)
            elif entry.islnk():
                shutil.copy2(root / merged(entry.linkname), place)
            elif entry.isreg() and (content := tar.extractfile(entry)) is not None:
                with place.open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                place.chmod(0o755 if entry.mode & 0o100 else 0o644)
    if unpacking.returncode != 0:
        raise ImageError(f"dpkg-deb could not unpack {file}: exit code {unpacking.returncode}")


def merged(name: str) -> str:
    """Convert a path in a package, `./lib/x`, to its path in the image, `usr/lib/x`; empty for the root itself."""
    path = name.removeprefix("./").strip("/")
    return f"usr/{path}" if path.split("/")[0] in _MERGED else path.removeprefix(".")


def _note(root: Path, package: Package, file: Path) -> None:
    """Record the package where image scanners look for Debian packages if there is no dpkg."""
    control = subprocess.run(["dpkg-deb", "--field", str(file)], capture_output=True, text=True, check=True).stdout
    place = root / "var/lib/dpkg/status.d" / package.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(control, encoding="utf-8")


def _certificates(root: Path) -> None:
    found = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(file.read_text(encoding="ascii").rstrip("\n") + "\n" for file in found), encoding="ascii")


def _java(root: Path) -> None:
    """Link `java`, an alternative that the package's script would have chosen."""
    for home in [path for path in (root / "usr/lib/jvm").glob("java-*-openjdk-*") if not path.is_symlink()]:
        (root / "usr/lib/jvm/default").symlink_to(home.name)
        (root / "usr/bin/java").symlink_to("../lib/jvm/default/bin/java")


def _python(root: Path) -> str:
    link = (root / "usr/bin/python3").readlink().name
    if (version := re.fullmatch(r"python(3\.\d+)", link)) is None:
        raise ImageError(f"Debian's python3 is {link}, which has no version in its name")
    (root / "usr/bin/python").symlink_to("python3")
    return version[1]
