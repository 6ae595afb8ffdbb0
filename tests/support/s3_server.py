"""A real S3 server, versitygw, over a folder: `python -m tests.support.s3_server` has its program ready, once.

The program is the one that SLUICEGATE_VERSITYGW names, else in the cache, where Go builds it. Tests only look for it:
what is built is built before them.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.support.apache_kafka import free_port
from tests.support.cache import ObtainError, cache_root, main, obtained, show

MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
PROGRAM_VARIABLE = "SLUICEGATE_VERSITYGW"
ACCESS_KEY, SECRET_KEY = "sluicegate", "sluicegate-secret"
_BUILD_TIMEOUT_S = 900
_START_TIMEOUT_S = 60.0


def program() -> Path:
    """Raises ObtainError when it is not there."""
    found = _place()
    if not found.is_file():
        raise ObtainError(f"{found} is not there: `make s3` builds versitygw")
    return found


def obtain() -> Path:
    """The program, built when it is not there yet. Raises ObtainError."""
    if os.environ.get(PROGRAM_VARIABLE):
        return program()
    return obtained(_place(), Path.is_file, _build)


def _place() -> Path:
    return Path(os.environ.get(PROGRAM_VARIABLE) or cache_root() / f"versitygw-{VERSION}" / "versitygw")


def _build(fresh: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ObtainError(
            f"versitygw is not in {_place()} and Go is not installed to build it; install Go, or let "
            f"{PROGRAM_VARIABLE} name the program"
        )
    show("s3", f"building versitygw {VERSION} with Go ...")
    environment = {**os.environ, "GOBIN": str(fresh.parent), "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
    command = [go, "install", "-ldflags=-s -w", f"{MODULE}@{VERSION}"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ObtainError(f"Go could not build versitygw {VERSION}: {done.stderr[-800:]}")


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
                    raise ObtainError(f"versitygw did not start, exit code {self._process.poll()}") from None
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


if __name__ == "__main__":
    sys.exit(main(obtain))
