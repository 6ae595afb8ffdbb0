"""Makes a virtual environment with this project and the packages of an extra: `python -m tools.venv .venv dev`.

pip installs exactly the pinned packages, and refuses a file whose SHA-256 sum is not in constraints.txt. Nothing is
resolved, and no package is built in an environment of its own, for which pip would not check sums.

Runs before anything is installed, so it imports the standard library only. Two runs at once wait for each other; a run
that was interrupted is restarted from scratch by the next.
"""

import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.pins import PINS, ROOT, Pin, PinsError, builders, needed, of_extras, parse, read_pyproject

SOURCES = (ROOT / "pyproject.toml", PINS)


def make(folder: Path, extra: str) -> None:
    """Make the virtual environment `folder` with the packages of `extra`.

    Raises CalledProcessError, after pip has printed the reason, and PinsError.
    """
    made, installed = folder / ".made", folder / ".installed"
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_newer(installed, SOURCES):
            return
        pins, pyproject = parse(PINS.read_text(encoding="utf-8")), read_pyproject()
        tools = needed(pins, builders(pyproject))
        packages = needed(pins, of_extras(pyproject["project"], [extra]))
        if not made.exists():
            _show(f"making {folder.name} ...")
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            made.touch()
        _show(f"installing the packages of constraints.txt into {folder.name} (a minute or two) ...")
        python = folder / "bin" / "python"
        _install(python, tools)
        _install(python, [pin for pin in packages if pin not in tools])
        _pip(python, ["--editable", "."])
        installed.touch()


def _install(python: Path, pins: Iterable[Pin]) -> None:
    """Install exactly these packages."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(f"{pin.requirement()}\n" for pin in pins))
        file.flush()
        _pip(python, ["--require-hashes", "--requirement", file.name])


def _pip(python: Path, what: list[str]) -> None:
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar"]
    pip += ["on" if sys.stderr.isatty() else "off", "--no-deps", "--no-build-isolation", *what]
    # Show pip's line for each package, but not its last line, which repeats all names.
    with subprocess.Popen(pip, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout or ():
            if line.startswith(("Collecting", "ERROR")):
                _show(line.partition(" (from -r ")[0].strip())
    if running.returncode != 0:
        raise subprocess.CalledProcessError(running.returncode, pip)


def _is_newer(file: Path, sources: tuple[Path, ...]) -> bool:
    return file.exists() and all(file.stat().st_mtime >= source.stat().st_mtime for source in sources)


def _show(line: str) -> None:
    sys.stderr.write(f"[venv] {line}\n")
    sys.stderr.flush()


def main() -> int:
    folder, extra = sys.argv[1:]
    try:
        make(ROOT / folder, extra)
    except (subprocess.CalledProcessError, OSError, PinsError) as error:
        sys.stderr.write(f"error: {folder} could not be built: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
