"""A stand-in for Docker Compose: a program named `docker` that stops and starts brokers of a test.

Tests of other projects call `docker compose stop kafka-1` and `docker compose start kafka-1`. The program passes each
call to the process of the test by HTTP. The broker stops by SIGTERM, as a container does.
"""

import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.support.processes.broker_process import BrokerProcess

_PROGRAM = """\
#!{python}
import sys
import urllib.request

if sys.argv[1:2] != ["compose"] or sys.argv[2:3] not in (["stop"], ["start"]) or len(sys.argv) != 4:
    sys.exit(f"this stand-in knows no `docker {{' '.join(sys.argv[1:])}}`")
urllib.request.urlopen("http://127.0.0.1:{port}/" + "/".join(sys.argv[2:]), b"", timeout=180).close()
"""


class ComposeStandIn:
    """Serves `docker compose stop NAME` and `docker compose start NAME` of the brokers with these names.

    The program is in `folder`, which the caller puts at the front of PATH. `calls` has the served calls in order.
    """

    def __init__(self, folder: Path, brokers: Mapping[str, BrokerProcess]) -> None:
        self.calls: list[str] = []
        self.folder = folder
        self._brokers = brokers
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.send_response(stand_in._serve(*self.path.removeprefix("/").split("/")))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        program = self.folder / "docker"
        program.write_text(_PROGRAM.format(python=sys.executable, port=self._server.server_port))
        program.chmod(0o755)
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _serve(self, verb: str, name: str) -> int:
        """Stop or start the broker, and return the HTTP status."""
        broker = self._brokers.get(name)
        if broker is None:
            return 404
        self.calls.append(f"{verb} {name}")
        if verb == "start":
            if not broker.is_running:
                broker.start()
        elif broker.is_running:
            broker.stop()
        return 204
