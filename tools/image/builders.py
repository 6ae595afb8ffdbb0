"""Builds the same image with docker, podman or buildah, for machines that cannot unpack Debian packages."""

import shutil
import subprocess
from pathlib import Path

from tools.image.definition import Image
from tools.image.errors import ImageError

BUILDERS = ("docker", "podman", "buildah")
_TIMEOUT_S = 3600.0


def chosen(asked: str) -> str | None:
    """Return the builder's name to use; None to build without one. Raises ImageError if neither is possible.

    "auto" builds without a builder if possible: that is faster, and the same input gives the same image.
    """
    if asked == "none" or (asked == "auto" and shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    there = [name for name in BUILDERS if shutil.which(name) is not None]
    if asked != "auto" and asked not in there:
        raise ImageError(f"{asked} is not on PATH")
    if not there:
        raise ImageError(
            f"an image needs Debian's apt-get and dpkg-deb, or one of {', '.join(BUILDERS)}: none of them is installed"
        )
    return asked if asked in there else there[0]


def command(builder: str, name: str, image: Image, version: str, root: Path) -> list[str]:
    """Return the command that builds the image `name` of definition.IMAGES from Containerfile."""
    arguments = ["--file", str(root / "Containerfile"), "--tag", image.reference(version), "--build-arg"]
    return [builder, "build", *arguments, f"IMAGE={name}", str(root)]


def build(builder: str, name: str, image: Image, version: str, root: Path) -> None:
    """Build the image; the builder prints its own progress. Raises ImageError."""
    done = subprocess.run(command(builder, name, image, version, root), timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ImageError(f"{builder} build failed with exit code {done.returncode}: see its output above")
