"""Fetches Debian packages with their dependencies and unpacks them into a folder: nothing is installed or started.

apt-get finds and fetches them with this machine's own sources; no maintainer script runs.
"""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.obtain.cache import ObtainError, show

APT_TIMEOUT_S = 600
UNPACK_TIMEOUT_S = 120
MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders of the root that are links into usr; packages use both names."""


def unpack(packages: tuple[str, ...], into: Path, *, whole: bool) -> None:
    """Unpack packages into a folder.

    `whole`: with all dependencies, down to libc; otherwise only those that this machine does not have installed.

    Raises ObtainError.
    """
    into.mkdir(parents=True, exist_ok=True)
    for name in MERGED:
        (into / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (into / name).is_symlink():
            (into / name).symlink_to(f"usr/{name}")
    with TemporaryDirectory(dir=into.parent, prefix="archives-") as scratch:
        archives = _fetch(packages, Path(scratch), whole=whole)
        show("kind", f"unpacking {len(archives)} packages of Debian")
        for archive in archives:
            _unpack_one(archive, into)


def _fetch(packages: tuple[str, ...], scratch: Path, *, whole: bool) -> list[Path]:
    (scratch / "partial").mkdir()
    options: dict[str, str | Path] = {
        "Dir::Cache::archives": scratch,
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "1",
    }
    if whole:
        (scratch / "status").touch()
        options["Dir::State::status"] = scratch / "status"
    install = ["install", "-y", "--download-only", "--no-install-recommends", *packages]
    show("kind", f"fetching {', '.join(packages)} from Debian")
    if _apt_get(install, options) != "":
        # The lists of packages are missing, or older than the archive.
        _apt_get(["update"], {})
        if failure := _apt_get(install, options):
            raise ObtainError(f"apt-get cannot fetch {', '.join(packages)}:\n{failure}")
    return sorted(scratch.glob("*.deb"))


def _apt_get(arguments: list[str], options: dict[str, str | Path]) -> str:
    """Run apt-get, and return its error message, or an empty string on success."""
    command = ["apt-get", "-q", *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]
    try:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=APT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {APT_TIMEOUT_S} s"
    return "" if done.returncode == 0 else done.stderr[-2000:] or f"exit code {done.returncode}"


def _unpack_one(archive: Path, into: Path) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as reading:
        tar = ["tar", "--extract", "--preserve-permissions", "--keep-directory-symlink", "--directory", str(into)]
        done = subprocess.run(
            tar, stdin=reading.stdout, capture_output=True, text=True, timeout=UNPACK_TIMEOUT_S, check=False
        )
    if done.returncode != 0 or reading.returncode != 0:
        raise ObtainError(f"{archive.name} cannot be unpacked: {done.stderr.strip()}")
