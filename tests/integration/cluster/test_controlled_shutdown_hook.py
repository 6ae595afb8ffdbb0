"""The preStop hook: it requests the shutdown once, reports the answer, and never fails the pod."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from broker_runtime import controlled_shutdown


@contextmanager
def answering(status: int) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Serve this status on a port; yield the port and the received requests."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.command, self.path))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"released\n")

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [200, 504])
def test_the_hook_prints_any_answer_and_succeeds(
    status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    with answering(status) as (port, asked):
        code = controlled_shutdown.main(["--http-port", str(port), "--deadline-s", "10"])
    assert code == 0
    assert asked == [("POST", "/controlled-shutdown")]
    assert capsys.readouterr().out == f"the broker answered {status}: released\n"


def test_the_hook_succeeds_if_the_broker_is_already_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POD_IP", raising=False)
    with answering(200) as (port, _):
        pass
    assert controlled_shutdown.main(["--http-port", str(port), "--deadline-s", "10"]) == 0
    assert capsys.readouterr().out.startswith(f"the broker at 127.0.0.1:{port} did not answer: ")
