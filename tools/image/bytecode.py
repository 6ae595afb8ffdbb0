"""Compiles an image's Python code with the image's own Python, run from its folder: without chroot and root."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tools.image.errors import ImageError

_TIMEOUT_S = 900.0


def compile_all(interpreter_root: Path, root: Path, folders: Iterable[str]) -> None:
    """Compile `folders` of `root` with the Python of `interpreter_root`. Raises ImageError.

    The bytecode is used without checking the source: images do not keep its modification times, and their files never
    change.
    """
    # x86-64 has it in lib64, others in lib.
    loader = next(path for folder in ("lib64", "lib") for path in (interpreter_root / "usr" / folder).glob("ld-linux*"))
    libraries = ":".join(str(path) for path in sorted((interpreter_root / "usr/lib").glob("*-linux-gnu")))
    command = [str(loader), "--library-path", libraries, str(interpreter_root / "usr/bin/python3"), "-S", "-m"]
    command += ["compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    environment = {"PYTHONHOME": str(interpreter_root / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [*command, *(str(root / folder) for folder in folders)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(
            f"the image's Python could not compile its code: {(done.stdout + done.stderr).strip()[-1000:]}"
        )
