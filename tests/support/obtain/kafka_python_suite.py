"""The tests that kafka-python has for itself: `python -m tests.support.obtain.kafka_python_suite` obtains them once.

They are in its source distribution, which pip downloads with the version and sums of constraints.txt. It lacks two
modules that its tests import: one empty, and one that starts programs. Modules written here take their place. The
second one starts nothing, because the environment variable KAFKA_URI names a running broker.
"""

import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained, show
from tools.pins import PINS, parse

_PACKAGE = "kafka-python"
_LIMIT_S = 600.0
_MODULES = {
    "test/__init__.py": "",
    "test/service.py": '''\
class ExternalService:
    """A broker that runs already."""

    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    """Refuses to start a program."""

    def __init__(self, *_):
        raise RuntimeError("these tests start no broker: KAFKA_URI names one")
''',
    # pytest looks for its configuration in all folders above, unless it finds one here.
    "pytest.ini": "[pytest]\n",
}


def suite() -> Path:
    """Folder in which pytest runs the tests, in `test/`. Raises ObtainError if it is missing."""
    found = _place()
    if not _is_complete(found):
        raise ObtainError(f"{found} is not there: `make client-suites` downloads the tests of {_PACKAGE}")
    return found


def obtain() -> Path:
    """Download the tests if they are missing, and return their folder. Raises ObtainError."""
    return obtained(_place(), _is_complete, _make)


def _requirement() -> str:
    return parse(PINS.read_text(encoding="utf-8"))[_PACKAGE].requirement()


def _place() -> Path:
    digest = sha256("\0".join((_requirement(), *_MODULES.values())).encode()).hexdigest()[:12]
    return cache_root() / f"kafka-python-suite-{digest}"


def _is_complete(place: Path) -> bool:
    return (place / "test" / "integration" / "conftest.py").is_file()


def _make(fresh: Path) -> None:
    show("client-suites", f"the download of the tests of {_PACKAGE} ...")
    archive = _download(fresh.with_name("download"))
    unpacked = fresh.with_name("unpacked")
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    (found,) = unpacked.iterdir()
    fresh.mkdir()
    # kafka-python itself stays out: the tests are of the installed package.
    (found / "test").rename(fresh / "test")
    for name, text in _MODULES.items():
        (fresh / name).write_text(text, encoding="utf-8")


def _download(into: Path) -> Path:
    into.mkdir()
    wanted = into / "requirements.txt"
    wanted.write_text(_requirement() + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--no-build-isolation", "--no-binary", _PACKAGE, "--require-hashes", "--requirement", str(wanted)]
    done = subprocess.run([*pip, "--dest", str(into)], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    archives = list(into.glob("*.tar.gz"))
    if done.returncode != 0 or len(archives) != 1:
        raise ObtainError(f"pip did not download the sources of {_PACKAGE}:\n{done.stderr[-4000:]}")
    return archives[0]


if __name__ == "__main__":
    sys.exit(main(obtain))
