"""A real S3 server, versitygw, over a folder; `python -m tests.support.processes.s3_server` obtains it once."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.support.obtain.cache import ObtainError, main
from tests.support.obtain.go_program import of_module
from tests.support.processes.ports import free_port

VERSITYGW = of_module(
    "github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "versitygw", target="s3", variable="SLUICEGATE_VERSITYGW"
)
ACCESS_KEY, SECRET_KEY = "sluicegate", "sluicegate-secret"
_START_TIMEOUT_S = 60.0


class S3Server:
    """One server with the bucket `audit` on a free port; its objects are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """URI of a place in the bucket, as `audit_pipeline` takes it."""
        return self.bare_uri.replace("s3://", f"s3://{ACCESS_KEY}:{SECRET_KEY}@")

    @property
    def bare_uri(self) -> str:
        """The same without credentials, for programs that have them from elsewhere."""
        where = quote(f"127.0.0.1:{self._port}", safe="")
        return f"s3://audit/events?endpoint_override={where}&scheme=http&region=us-east-1"

    def __enter__(self) -> Self:
        (self._folder / "audit").mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        command = [str(VERSITYGW.program()), "--port", f"127.0.0.1:{self._port}", "--quiet", "posix", str(self._folder)]
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
    sys.exit(main(VERSITYGW.obtain))
