"""Makes a virtual environment with this project and its dependencies: `python -m tools.venv .venv '.[dev]'`.

Runs before anything is installed, so it imports the standard library only. Two runs at once wait for each other; a run
that was interrupted is restarted from scratch by the next.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "pyproject.toml", ROOT / "constraints.txt")


def make(folder: Path, what: str) -> None:
    """Make the environment `folder` with `what`, a requirement as pip takes it.

    Raises CalledProcessError; pip has then printed the reason.
    """
    made, installed = folder / ".made", folder / ".installed"
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_newer(installed, SOURCES):
            return
        if not made.exists():
            _show(f"making {folder.name} ...")
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            made.touch()
        _show(f"installing the packages of constraints.txt into {folder.name} (a minute or two) ...")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar"]
        pip += ["on" if sys.stderr.isatty() else "off", "-c", str(SOURCES[1]), "-e", what]
        # Show pip's line for each package, but not its last line, which repeats all names.
        with subprocess.Popen(pip, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout or ():
                if line.startswith(("Collecting", "ERROR")):
                    _show(line.strip())
        if running.returncode != 0:
            raise subprocess.CalledProcessError(running.returncode, pip)
        installed.touch()


def _is_newer(file: Path, sources: tuple[Path, ...]) -> bool:
    return file.exists() and all(file.stat().st_mtime >= source.stat().st_mtime for source in sources)


def _show(line: str) -> None:
    sys.stderr.write(f"[venv] {line}\n")
    sys.stderr.flush()


def main() -> int:
    folder, what = sys.argv[1:]
    try:
        make(ROOT / folder, what)
    except (subprocess.CalledProcessError, OSError) as error:
        sys.stderr.write(f"error: {folder} could not be built: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
