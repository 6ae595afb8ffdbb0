"""A real toxiproxy, a TCP proxy that a test controls by HTTP.

`python -m tests.support.processes.toxiproxy` obtains it once.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Self

from tests.support.obtain.cache import ObtainError, main
from tests.support.obtain.go_program import of_module
from tests.support.processes.ports import free_port

TOXIPROXY = of_module(
    "github.com/Shopify/toxiproxy/v2/cmd/server",
    "v2.5.0",
    "toxiproxy",
    target="client-suites",
    variable="SLUICEGATE_TOXIPROXY",
    cached_as="toxiproxy",
)
_START_TIMEOUT_S = 60.0


class Toxiproxy:
    """One process on a free port of loopback; `url` is the address of its HTTP API."""

    def __init__(self) -> None:
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        command = [str(TOXIPROXY.program()), "-host", "127.0.0.1", "-port", str(self._port)]
        environment = os.environ | {"LOG_LEVEL": "error"}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers(self._process):
            if self._process.poll() is not None or time.monotonic() > deadline:
                code = self._process.poll()
                self.__exit__()
                raise ObtainError(f"toxiproxy did not start, exit code {code}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def proxy(self, name: str, upstream: str) -> str:
        """Create a proxy to `upstream`, HOST:PORT, and return its own address in the same form."""
        wanted = {"name": name, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": True}
        request = urllib.request.Request(
            f"{self.url}/proxies", json.dumps(wanted).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_START_TIMEOUT_S) as answer:
            return str(json.load(answer)["listen"])

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the API answers; waits a moment if it does not, unless the process ends."""
        try:
            with urllib.request.urlopen(f"{self.url}/version", timeout=_START_TIMEOUT_S):
                return True
        except urllib.error.URLError:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
            return False


if __name__ == "__main__":
    sys.exit(main(TOXIPROXY.obtain))
