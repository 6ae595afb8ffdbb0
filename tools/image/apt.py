"""Debian packages, resolved and downloaded by this machine's apt-get and unpacked by its dpkg-deb.

apt uses its own lists and cache here, so that it needs no root and does not change the machine's apt. apt verifies the
signatures of the lists, and the lists have the checksum of each package.
"""

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.obtain.cache import one_run_at_a_time, show
from tools.image.errors import ImageError

LISTS_AGE_MAX_S = 24 * 3600.0
_TIMEOUT_S = 600.0
_DEPENDENCY = re.compile(r"\s*\|?(?:Pre)?Depends: ([^<\s]+)$")
_URI = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")


@dataclass(frozen=True, order=True)
class Package:
    """One version of a package, as listed by apt."""

    name: str
    version: str
    architecture: str
    sha256: str
    file: str


class Apt:
    """apt with its lists in `folder`, for an `architecture` of Debian's or else this machine's.

    Methods raise ImageError.
    """

    def __init__(self, folder: Path, architecture: str | None = None) -> None:
        self._folder = folder
        self._archives = folder / "archives"
        self._lists = folder / "lists"
        for inside in (self._archives / "partial", self._lists / "partial"):
            inside.mkdir(parents=True, exist_ok=True)
        status = folder / "status"
        status.touch()
        self._options = [f"-oDir::State={folder}", f"-oDir::State::lists={self._lists}"]
        self._options += [f"-oDir::State::status={status}", f"-oDir::Cache={folder}"]
        if architecture is not None:
            self._options += [f"-oAPT::Architecture={architecture}", f"-oAPT::Architectures={architecture}"]
        self._options += [f"-oAPT::Sandbox::User={'root' if os.geteuid() == 0 else ''}", "-oAPT::Get::Assume-Yes=1"]

    def update(self, *, now_s: float | None = None) -> None:
        """Read the package lists if the cached lists are older than a day.

        If reading fails, the cached lists are used.
        """
        read = self._folder / "read"
        with one_run_at_a_time(self._lists):
            if read.exists() and (now_s or time.time()) - read.stat().st_mtime <= LISTS_AGE_MAX_S:
                return
            try:
                # Without this option apt-get succeeds although sources do not answer.
                self._run(["apt-get", "update", "-q", "-oAPT::Update::Error-Mode=any"])
            except ImageError as error:
                if not any(self._lists.glob("*_Packages*")):
                    raise
                show("image", f"{error}; continuing with the existing lists")
            else:
                read.touch()

    def resolve(self, roots: Iterable[str], not_needed: frozenset[str]) -> list[Package]:
        """Return `roots` and their dependencies, without `not_needed` and packages that only these depend on."""
        kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
        command = ["apt-cache", "depends", "--recurse", *(f"--no-{kind}" for kind in kinds), *roots]
        names = closure(self._run(command), roots, not_needed)
        found = []
        for line in self._run(["apt-get", "-q", "download", "--print-uris", *names]).splitlines():
            if (uri := _URI.match(line)) is not None:
                name, version, architecture = uri["file"].removesuffix(".deb").split("_")
                found.append(Package(name, version.replace("%3a", ":"), architecture, uri["sha256"], uri["file"]))
        if missing := set(names) - {package.name for package in found}:
            raise ImageError(
                f"apt does not have {', '.join(sorted(missing))}: its sources must be those of Debian 12 or later"
            )
        return sorted(found)

    def download(self, packages: Iterable[Package], progress: Callable[[str], None]) -> list[Path]:
        """Download the packages, and return their files in the order of `packages`."""
        wanted = list(packages)
        places = [self._archives / package.file for package in wanted]
        with one_run_at_a_time(self._archives):
            lacking = [package for package, place in zip(wanted, places, strict=True) if not _is_whole(package, place)]
            if lacking:
                progress(f"downloading {len(lacking)} packages of Debian ...")
                versions = [f"{package.name}={package.version}" for package in lacking]
                self._run(["apt-get", "-q", "download", *versions], folder=self._archives)
        if broken := [
            package.file for package, place in zip(wanted, places, strict=True) if not _is_whole(package, place)
        ]:
            raise ImageError(f"{', '.join(broken)} do not match the lists of packages; try again")
        return places

    def _run(self, command: list[str], folder: Path | None = None) -> str:
        try:
            done = subprocess.run(
                [command[0], *self._options, *command[1:]],
                cwd=folder,
                env={**os.environ, "LC_ALL": "C"},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise ImageError(
                f"{command[0]} is not installed: without docker, podman or buildah an image is built from Debian's "
                "packages, which needs Debian"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise ImageError(f"{' '.join(command[:3])} did not end within {_TIMEOUT_S:.0f} s") from error
        if done.returncode != 0:
            raise ImageError(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-1000:]}")
        return done.stdout


def closure(depends: str, roots: Iterable[str], not_needed: frozenset[str]) -> list[str]:
    """Return the packages reachable from `roots` by first alternatives, without passing through `not_needed`.

    `depends` is the output of `apt-cache depends --recurse`.
    """
    graph: dict[str, list[str]] = {}
    current, is_alternative = "", False
    for line in depends.splitlines():
        if line and not line.startswith((" ", "<")):
            current, is_alternative = line, False
            graph.setdefault(current, [])
        elif (found := _DEPENDENCY.match(line)) is not None and current:
            if not is_alternative:
                graph[current].append(found[1])
            is_alternative = line.lstrip(" ").startswith("|")
    reached, left = set(), list(roots)
    while left:
        name = left.pop()
        if name not in reached and name not in not_needed:
            reached.add(name)
            left += graph.get(name, [])
    return sorted(reached)


def _is_whole(package: Package, place: Path) -> bool:
    return place.exists() and hashlib.sha256(place.read_bytes()).hexdigest() == package.sha256
