"""A real S3 server, versitygw, over a folder: `python -m tests.support.s3_server` has its program ready, once.

The program is the one that SLUICEGATE_VERSITYGW names, else in the cache, where Go builds it. Runs that need the same
cache wait for each other. Tests only look for it: what is built is built before them.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.support.apache_kafka import free_port

MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
PROGRAM_VARIABLE = "SLUICEGATE_VERSITYGW"
ACCESS_KEY, SECRET_KEY = "sluicegate", "sluicegate-secret"
_BUILD_TIMEOUT_S = 900
_START_TIMEOUT_S = 60.0


class S3Unavailable(Exception):  # noqa: N818 - says a state of this machine, not a mistake
    """This machine cannot run an S3 server yet; the sentence says what to do."""


def program() -> Path:
    """Raises S3Unavailable when it is not there."""
    found = _place()
    if not found.is_file():
        raise S3Unavailable(f"{found} is not there: `make s3` builds versitygw")
    return found


def obtain() -> Path:
    """The program, built when it is not there yet. Raises S3Unavailable."""
    place = _place()
    if os.environ.get(PROGRAM_VARIABLE) or place.is_file():
        return program()
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_file():
            _build(place)
    return place


def _place() -> Path:
    if chosen := os.environ.get(PROGRAM_VARIABLE):
        return Path(chosen)
    cache_root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache_root / "sluicegate" / f"versitygw-{VERSION}" / "versitygw"


def _build(place: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise S3Unavailable(
            f"versitygw is not in {place} and Go is not installed to build it; install Go, or let "
            f"{PROGRAM_VARIABLE} name the program"
        )
    sys.stderr.write(f"[s3] building versitygw {VERSION} with Go ...\n")
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="build-") as scratch:
        environment = {**os.environ, "GOBIN": scratch, "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
        command = [go, "install", "-ldflags=-s -w", f"{MODULE}@{VERSION}"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise S3Unavailable(f"Go could not build versitygw {VERSION}: {done.stderr[-800:]}")
        (Path(scratch) / "versitygw").rename(place)


class S3Server:
    """One server with the bucket `audit` on a free port; its objects lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Of a place in the bucket, as `audit_pipeline` takes it."""
        return self.bare_uri.replace("s3://", f"s3://{ACCESS_KEY}:{SECRET_KEY}@")

    @property
    def bare_uri(self) -> str:
        """The same, for those who have the credentials from elsewhere."""
        where = quote(f"127.0.0.1:{self._port}", safe="")
        return f"s3://audit/events?endpoint_override={where}&scheme=http&region=us-east-1"

    def __enter__(self) -> Self:
        (self._folder / "audit").mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        command = [str(program()), "--port", f"127.0.0.1:{self._port}", "--quiet", "posix", str(self._folder)]
        environment = {**os.environ, "ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise S3Unavailable(f"versitygw did not start, exit code {self._process.poll()}") from None
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def main() -> int:
    try:
        found = obtain()
    except S3Unavailable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
