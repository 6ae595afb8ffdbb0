"""The layer of required Python packages, pinned by constraints.txt, and the layer of this project's own code."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.image.errors import ImageError
from tools.image.trimming import unneeded_of_python

_TIMEOUT_S = 1800.0
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Names that wheels have for Debian's architectures."""
_LIBRARY_MINORS = range(17, 37)
"""Minor versions of the C library 2.x whose wheels run on Debian 12 and later."""
WITHOUT_WHEEL = ("pyspark",)
"""Packages that are published as source only. They have no compiled part, so they are the same for each architecture.
"""
_SCRIPT = """#!/usr/bin/python3
import sys

from {module} import {function}

sys.exit({function}())
"""


def check_python(version: str) -> None:
    """Check that this process runs the Python `version`, because pip selects packages for it. Raises ImageError."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if own != version:
        raise ImageError(
            f"the image's Python is Debian's {version}, but this is Python {own}: create .venv with Debian's (make "
            f"clean venv PYTHON=python{version}), or build with docker, podman or buildah"
        )


def install(site: Path, requirements: Sequence[str], architecture: str | None = None) -> None:
    """Install pinned packages with pip, and remove files that no program here uses. Raises ImageError.

    Each requirement has the sums of its files, which pip checks. The packages are those for an `architecture` of
    Debian's, or else for this machine.
    """
    if architecture is None:
        _pip(site, requirements)
    else:
        sources = [line for line in requirements if line.partition("==")[0] in WITHOUT_WHEEL]
        _pip(site, [line for line in requirements if line not in sources], *wheels_for(architecture))
        if sources:
            _pip(site, sources)
    for path in sorted(site.rglob("*")):
        if path.is_file() and unneeded_of_python(path.relative_to(site).as_posix()):
            path.unlink()
    for folder in sorted((path for path in site.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def wheels_for(architecture: str) -> list[str]:
    """Return the options with which pip takes the wheels of Linux on an architecture of Debian's."""
    machine = _MACHINES[architecture]
    names = [f"manylinux_2_{minor}_{machine}" for minor in _LIBRARY_MINORS] + [f"manylinux2014_{machine}"]
    return ["--only-binary=:all:", *(part for name in names for part in ("--platform", name))]


def _pip(site: Path, requirements: Sequence[str], *options: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    command += ["--no-warn-conflicts", "--no-deps", "--no-build-isolation", "--require-hashes"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in requirements))
        file.flush()
        command += [*options, "--target", str(site), "--requirement", file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ImageError(f"pip could not install the packages of constraints.txt: {done.stderr.strip()[-2000:]}")


def copy_own(root: Path, site: Path, source: Path, pyproject: dict[str, Any]) -> None:
    """Copy this project's packages into `site`, and its command to usr/local/bin."""
    for package in pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(source / package, site / Path(package).name, ignore=ignored)
    project = pyproject["project"]
    about = site / f"{project['name']}-{project['version']}.dist-info"
    about.mkdir()
    shutil.copy(source / "LICENSE", about / "LICENSE")
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
        f"Summary: {project['description']}\nLicense-Expression: {project['license']}\n",
        encoding="utf-8",
    )
    scripts = "".join(f"{name} = {target}\n" for name, target in project["scripts"].items())
    (about / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}", encoding="utf-8")
    for name, target in project["scripts"].items():
        module, function = target.split(":")
        script = root / "usr/local/bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_SCRIPT.format(module=module, function=function), encoding="utf-8")
        script.chmod(0o755)


def put_on_path(root: Path, programs: Iterable[str]) -> None:
    """Put programs on the PATH by scripts, not links, because Spark's programs look for files beside themselves.

    The scripts use bash, like Spark's own: images have no other shell, and no /bin/sh.
    """
    for program in programs:
        script = root / "usr/local/bin" / Path(program).name
        script.write_text(f'#!/bin/bash\nexec {program} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
