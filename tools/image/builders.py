"""The same image by docker, podman or buildah, where Debian's packages cannot be unpacked on this machine itself."""

import shutil
import subprocess
from pathlib import Path

from tools.image.definition import Image
from tools.image.errors import ImageError

BUILDERS = ("docker", "podman", "buildah")
_TIMEOUT_S = 3600.0


def chosen(asked: str) -> str | None:
    """A builder's name, or None to do without. Raises ImageError when neither is possible.

    "auto" does without where it can: that is quicker, and the same input is the same image.
    """
    if asked == "none" or (asked == "auto" and shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    there = [name for name in BUILDERS if shutil.which(name) is not None]
    if asked != "auto" and asked not in there:
        raise ImageError(f"{asked} is not on PATH")
    if not there:
        raise ImageError(f"an image takes Debian's apt-get and dpkg-deb, or one of {', '.join(BUILDERS)}: none is here")
    return asked if asked in there else there[0]


def command(builder: str, name: str, image: Image, version: str, root: Path) -> list[str]:
    """What builds the image `name` of definition.IMAGES from Containerfile."""
    arguments = ["--file", str(root / "Containerfile"), "--tag", image.reference(version), "--build-arg"]
    return [builder, "build", *arguments, f"IMAGE={name}", str(root)]


def build(builder: str, name: str, image: Image, version: str, root: Path) -> None:
    """The builder says itself how far it is. Raises ImageError."""
    done = subprocess.run(command(builder, name, image, version, root), timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ImageError(f"{builder} build failed with exit code {done.returncode}: see what it says above")
