"""Our broker as real processes on loopback, for tests and benchmarks.

    with BrokerProcess() as broker:                 # broker and controller in one process
        connect(broker.bootstrap)
    with BrokerGroup(brokers=3) as group:           # one controller process and three brokers
        group.brokers[1].kill()

The module chooses free ports, keeps data in a temporary folder, and ends every process by its id.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.support.processes.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
CLUSTER_ID = "c2x1aWNlZ2F0ZXRlc3RzMA"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 15.0
CLIENT_LISTENER = "PLAINTEXT"


class BrokerProcess:
    """One process with both roles, unless `properties` set others; `listeners` are added to PLAINTEXT."""

    def __init__(
        self,
        *,
        listeners: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        node_id: int = 1,
        folder: Path | None = None,
        host: str = "127.0.0.1",
        python: str = sys.executable,
        checkout: Path = ROOT,
        module: str = "broker_runtime",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self._python = python
        self._checkout = checkout
        self._module = module
        self._environment = dict(environment or {})
        self._ports = {name: free_port() for name in (CLIENT_LISTENER, *listeners)}
        self.http_port = free_port()
        self._properties = dict(properties or {})
        self._given_folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.started_in_s = 0.0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port()}"

    def port(self, listener: str = CLIENT_LISTENER) -> int:
        return self._ports[listener]

    def advertise(self, addresses: str) -> None:
        """Set `advertised.listeners`, effective from the next start."""
        self._properties["advertised.listeners"] = addresses

    def use(self, checkout: Path) -> None:
        """Run the source of another checkout, effective from the next start."""
        self._checkout = checkout

    @property
    def is_running(self) -> bool:
        """Whether the process is running or paused; False after `stop` or `kill`."""
        return self._process is not None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    @property
    def folder(self) -> Path:
        if self._given_folder is not None:
            return self._given_folder
        if self._temporary is None:
            raise RuntimeError("the broker has no folder before it is started")
        return Path(self._temporary.name)

    @property
    def data(self) -> Path:
        return self.folder / f"data-{self.node_id}"

    def __enter__(self) -> Self:
        if self._given_folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="sluicegate-")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def start(self, *, wait: bool = True) -> None:
        """Start on the existing data; return when /readyz answers 200."""
        path = self.folder / f"server-{self.node_id}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.server_properties().items()))
        began_s = time.monotonic()
        command = [self._python, "-m", self._module, "--config", str(path)]
        with (self.folder / f"node-{self.node_id}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._checkout, env=os.environ | self._environment
            )
        if wait:
            self.wait_ready()
            self.started_in_s = time.monotonic() - began_s

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while self.get("/readyz")[0] != 200:
            code = self.poll()
            if code is not None:
                raise RuntimeError(f"the broker ended with code {code}:\n{self.log()[-4000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the broker was not ready within {timeout_s} s:\n{self.log()[-4000:]}")
            self._pause()

    def stop(self, *, signals: int = 1) -> int:
        """Send SIGTERM and return the exit code; raise if the process does not stop in time.

        Signals that are pending together count as one: the next one is sent after the process has acted on the
        previous.
        """
        assert self._process is not None
        for number in range(signals):
            if number:
                self._wait_until_stopping()
            self._process.terminate()
        code = self._process.wait(STOP_TIMEOUT_S)
        self._process = None
        return code

    def _wait_until_stopping(self) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self.get("/readyz")[0] == 200:
            assert time.monotonic() < deadline, "the broker takes no notice of SIGTERM"
            self._pause()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Send SIGSTOP: the process lives and does nothing, as on a node that hangs."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def ended(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """The exit code of a process that ends without a signal from the test."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def poll(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def get(self, path: str) -> tuple[int, str]:
        """(status, body) of the HTTP listener; (0, reason) while the listener is down."""
        return self._ask("GET", path, ANSWER_TIMEOUT_S)

    def post(self, path: str, timeout_s: float = 30.0) -> tuple[int, str]:
        """Send a POST to the HTTP listener, and return the answer."""
        return self._ask("POST", path, timeout_s)

    def _ask(self, method: str, path: str, timeout_s: float) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self.host}:{self.http_port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def brokers(self) -> dict[int, dict[str, Any]]:
        """GET /brokers of a controller, by broker id; empty while the controller is not active."""
        status, body = self.get("/brokers")
        return {broker["id"]: broker for broker in json.loads(body)["brokers"]} if status == 200 else {}

    def metrics(self) -> dict[str, float]:
        """`name{label="value"}` -> value, as scraped."""
        status, text = self.get("/metrics")
        if status != 200:
            raise RuntimeError(f"/metrics answered {status}: {text}")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def log(self) -> str:
        return (self.folder / f"node-{self.node_id}.log").read_text(errors="replace")

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024

    def server_properties(self) -> dict[str, str]:
        return {
            "node.id": str(self.node_id),
            "listeners": ",".join(f"{name}://{self.host}:{port}" for name, port in self._ports.items()),
            "inter.broker.listener.name": CLIENT_LISTENER,
            "log.dirs": str(self.data),
            "sluicegate.http.listener": f"{self.host}:{self.http_port}",
        } | self._properties

    def _pause(self) -> None:
        """Wait between two checks; the wait ends early if the process ends."""
        assert self._process is not None
        try:
            self._process.wait(0.02)
        except subprocess.TimeoutExpired:
            return


class BrokerGroup:
    """One controller process (node 1000) and several broker processes (nodes 0, 1, ..., or from `first_id`)."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        first_id: int = 0,
        listeners: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        of_brokers: Mapping[str, str] | None = None,
        python: str = sys.executable,
        checkout: Path = ROOT,
    ) -> None:
        """`of_brokers` are further properties, which the controller does not have."""
        self._temporary = tempfile.TemporaryDirectory(prefix="sluicegate-")
        folder = Path(self._temporary.name)
        controller_port = free_port()
        shared = dict(properties or {}) | {"cluster.id": CLUSTER_ID}
        self.controller = BrokerProcess(
            node_id=1000,
            folder=folder,
            python=python,
            checkout=checkout,
            properties=shared
            | {
                "process.roles": "controller",
                "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
                "controller.listener.names": "CONTROLLER",
                "inter.broker.listener.name": "",
            },
        )
        self.brokers = [
            BrokerProcess(
                node_id=number,
                folder=folder,
                python=python,
                checkout=checkout,
                listeners=listeners,
                properties=shared
                | {
                    "process.roles": "broker",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
                }
                | dict(of_brokers or {}),
            )
            for number in range(first_id, first_id + brokers)
        ]

    @property
    def nodes(self) -> list[BrokerProcess]:
        return [self.controller, *self.brokers]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.__exit__)
            for node in self.nodes:
                node.start(wait=False)
            for node in self.nodes:
                node.wait_ready()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        self._temporary.cleanup()


def is_listening(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
