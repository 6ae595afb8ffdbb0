"""`package`: the pipeline as files for spark-submit, for clusters whose machines do not have it. Shell."""

import argparse
import io
import zipfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Event
from typing import Any, Final

from audit_pipeline.commands.commands import OK
from audit_pipeline.errors import BadUseError

_PACKAGES: Final = ("audit_pipeline", "connection_limits", "kafka_bytes")
ARCHIVE: Final = "audit_pipeline.zip"
PROGRAM: Final = "audit_build.py"
_PROGRAM_TEXT = f'''"""A command of the audit pipeline: spark-submit --py-files {ARCHIVE} {PROGRAM} build ..."""

import runpy

runpy.run_module("audit_pipeline", run_name="__main__", alter_sys=True)
'''
_SUFFIXES = (".py", ".json", ".css", ".js", ".properties")
_TIME = (1980, 1, 1, 0, 0, 0)
"""Fixed time, so that the same package gives the same file, byte by byte; zip has no earlier time."""


def add_package(found: Any) -> None:
    """Add `package` to the commands of `found`, the result of argparse's add_subparsers."""
    package = found.add_parser("package", help=f"write {ARCHIVE} and {PROGRAM} for spark-submit")
    package.add_argument("--out", type=Path, default=Path("dist"), help="the folder for both files; default: dist")
    package.set_defaults(run=package_pipeline)


def package_pipeline(given: argparse.Namespace, _: Event, __: Callable[[], int]) -> int:
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / ARCHIVE).write_bytes(archive())
        (given.out / PROGRAM).write_text(_PROGRAM_TEXT, encoding="utf-8")
    except OSError as error:
        raise BadUseError(
            f"{given.out} cannot be written: {error.strerror}; give as --out a folder that exists or can be created"
        ) from None
    print(f"spark-submit --py-files {given.out / ARCHIVE} {given.out / PROGRAM} build --source ... --results ...")
    return OK


def archive() -> bytes:
    """Return a zip file of the pipeline that Python can import directly; schemas are files in it, not links."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for package in _PACKAGES:
            for path, data in _files(files(package), package):
                entry = zipfile.ZipInfo(path, _TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                made.writestr(entry, data)
    return packed.getvalue()


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        below = f"{path}/{each.name}"
        if each.is_dir():
            yield from _files(each, below)
        elif each.name.endswith(_SUFFIXES):
            yield below, each.read_bytes()
