"""Writes constraints.txt: versions and sums of all packages that pyproject.toml needs. `python -m tools.renew_pins`.

uv resolves for all platforms and all supported versions of Python, and takes the sums of all files of a release from
the index that pip uses. Versions in the file stay as they are, except those of the packages that are named:
`python -m tools.renew_pins --upgrade kopf pytest`. `make pins` makes the environment of uv first.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.pins import PINS, ROOT, PinsError, builders, parse, read_pyproject

_UV = ROOT / ".venv-pins" / "bin" / "uv"
_OLDEST = "3.11.5"
"""The oldest Python that packages of the documentation's site accept."""
_HEADER = """\
# Versions of all Python packages, and the SHA-256 sums of their files for all platforms; pip checks them.
# Written by `make pins`; `make pins UPGRADE="kopf pytest"` takes newer versions of those. Do not edit the sums.
"""


def renewed(old: str, upgrade: Sequence[str]) -> str:
    """Return the new content of the pins file. Raises PinsError."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "pins.txt"
        output.write_text(old, encoding="utf-8")
        command = [str(_UV), "pip", "compile", "pyproject.toml", "-", "--all-extras", "--universal", "--quiet"]
        command += ["--python-version", _OLDEST, "--generate-hashes", "--no-header", "--system-certs"]
        command += ["--output-file", str(output)]
        command += [part for name in upgrade for part in ("--upgrade-package", name)]
        also = "\n".join(builders(read_pyproject()))
        done = subprocess.run(command, cwd=ROOT, input=also, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PinsError(f"uv could not resolve the packages: {done.stderr.strip()[-2000:]}")
        found = _HEADER + output.read_text(encoding="utf-8")
    parse(found)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.renew_pins", description=__doc__)
    parser.add_argument("--upgrade", nargs="*", default=[], metavar="NAME", help="packages that may get newer versions")
    options = parser.parse_args()
    old = PINS.read_text(encoding="utf-8")
    try:
        new = renewed(old, options.upgrade)
    except (PinsError, OSError) as error:
        sys.stderr.write(f"error: constraints.txt stays as it is: {error}\n")
        return 1
    PINS.write_text(new, encoding="utf-8")
    pins = parse(new)
    sys.stdout.write(f"{len(pins)} packages, {sum(len(pin.sums) for pin in pins.values())} sums of files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
