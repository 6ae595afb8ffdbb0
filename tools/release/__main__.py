"""`python -m tools.release`: all artefacts of a release in dist/, from a clean checkout."""

import argparse
import sys
from pathlib import Path

from tests.support.obtain.cache import show
from tools.image.definition import IMAGES
from tools.image.errors import ImageError
from tools.pins import PinsError
from tools.release.artefacts import make_artefacts
from tools.release.errors import ReleaseError
from tools.release.installed import check_installed
from tools.release.names import write_names
from tools.release.numbering import set_version
from tools.release.source import read_source
from tools.release.twice import check_twice

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = ("amd64", "arm64")


def main() -> int:
    """Make or check a release, and return the exit code."""
    given = _parser().parse_args()
    try:
        if given.set_version is not None:
            sys.stdout.write("".join(f"{name}\n" for name in set_version(ROOT, given.set_version)))
            write_names(ROOT)
        elif given.check_twice:
            _check_twice(given)
        else:
            _make(given)
    except (ReleaseError, ImageError, PinsError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for artefacts (default: dist/)")
    parser.add_argument(
        "--architecture",
        action="append",
        choices=ARCHITECTURES,
        help="build images for this architecture; may be repeated; default: all",
    )
    parser.add_argument(
        "--image", action="append", choices=("none", *IMAGES), help="build this image; may be repeated; default: all"
    )
    parser.add_argument("--no-install", action="store_true", help="do not install the wheel to call its commands")
    parser.add_argument(
        "--check-twice", action="store_true", help="make the release twice at different paths, and compare all bytes"
    )
    parser.add_argument(
        "--fresh-layers", action="store_true", help="with --check-twice: build each layer of the second run again"
    )
    parser.add_argument(
        "--set-version", metavar="VERSION", help="write a new version into the files that name it, and make nothing"
    )
    return parser


def _make(given: argparse.Namespace) -> None:
    source = read_source(ROOT)
    images = [name for name in given.image or IMAGES if name != "none"]
    make_artefacts(source, given.out, given.architecture or ARCHITECTURES, images)
    if not given.no_install:
        show("release", "installing the wheel into a fresh environment ...")
        found = check_installed(source, given.out / f"sluicegate-{source.version}-py3-none-any.whl")
        show(
            "release",
            f"{found.packages} packages and the wheel take {found.size / 1e6:.1f} MB; {found.calls} calls work",
        )
    show("release", f"{given.out} has release {source.version}")


def _check_twice(given: argparse.Namespace) -> None:
    read_source(ROOT)
    arguments = ["--no-install"]
    for option, values in (("--architecture", given.architecture), ("--image", given.image)):
        arguments += [part for value in values or () for part in (option, value)]
    check_twice(ROOT, arguments, fresh_layers=given.fresh_layers)


if __name__ == "__main__":
    sys.exit(main())
