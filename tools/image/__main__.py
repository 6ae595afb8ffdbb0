"""`python -m tools.image [slim] [landing] [client] [audit]`: images as archives, each with a list of its parts."""

import argparse
import sys
import time
import tomllib
from pathlib import Path

from tests.support.obtain.cache import show
from tools.image import archive, builders
from tools.image.build import ROOT, build
from tools.image.definition import IMAGES
from tools.image.errors import ImageError


def main() -> int:
    """Build the images, print the path, name, size and digest of each, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.add_argument("images", nargs="*", metavar="image", help=f"{', '.join(IMAGES)}; default: all of them")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for archives (default: dist/)")
    parser.add_argument(
        "--architecture",
        choices=("amd64", "arm64"),
        help="build for this architecture of Debian's, and name it in the archive's name; default: this machine's",
    )
    parser.add_argument("--root", type=Path, help="also write the image's files to this folder")
    parser.add_argument(
        "--builder",
        default="auto",
        choices=("auto", "none", *builders.BUILDERS),
        help="auto uses no builder on Debian, and elsewhere the first one that is installed",
    )
    given = parser.parse_args()
    if unknown := sorted(set(given.images) - set(IMAGES)):
        parser.error(f"image {', '.join(unknown)} does not exist: choose one of {', '.join(IMAGES)}")
    for name in given.images or IMAGES:
        started_s = time.monotonic()
        try:
            _make(name, given)
        except (ImageError, OSError) as error:
            sys.stderr.write(f"error: {name} could not be built: {error}\n")
            return 1
        show("image", f"{name} took {time.monotonic() - started_s:.0f} s")
    return 0


def _make(name: str, given: argparse.Namespace) -> None:
    image = IMAGES[name]
    builder = builders.chosen(given.builder)
    if builder is not None:
        version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        builders.build(builder, name, image, version, ROOT)
        sys.stdout.write(f"{builder} has {image.reference(version)}\n")
        return
    built = build(image, given.out, given.architecture)
    if given.root is not None:
        archive.unpack(built.path, given.root)
    sys.stdout.write(f"{built.path} {built.reference} {built.size / 1e6:.0f} MB {built.digest}\n")


if __name__ == "__main__":
    sys.exit(main())
