"""Apache Kafka 4.3.0 itself, as a single node on loopback: the reference for our broker and our clients.

    with ApacheKafka(listeners=["EXTERNAL"], properties={"num.partitions": "3"}) as kafka:
        connect(kafka.bootstrap, kafka.port("EXTERNAL"))
        kafka.tool("kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap, "--describe", ...)

`make kafka` must have fetched the jars (kafka_libs.py). This module knows nothing of our own broker.
"""

import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.ports import free_port

FORMAT_TIMEOUT_S = 180
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"

LOG4J = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders>
    <Console name="console" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %m (%c)%n"/></Console>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
"""


class ApacheKafka:
    """One node, broker and controller, started on entering and removed with its data on leaving.

    `listeners` names more PLAINTEXT listeners beside the one of the same name, which is also the inter-broker one;
    `properties` are added to or replace those of server.properties. Raises ObtainError on entering.
    """

    def __init__(
        self,
        *,
        listeners: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = (),
        node_id: int = 1,
        cluster_id: str | None = None,
        ready_listener: str = CLIENT_LISTENER,
    ) -> None:
        """Prepare a node; `ready_listener` is the listener that opens when the node serves.

        A controller alone has no other.
        """
        self.node_id = node_id
        self._cluster_id = cluster_id or urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._ready_listener = ready_listener
        self.host = "127.0.0.1"
        self._ports = {name: free_port() for name in (CLIENT_LISTENER, CONTROLLER_LISTENER, *listeners)}
        self.properties = dict(properties or {})
        """Entries of server.properties; entries with an empty value are left out."""
        self._heap_mb = heap_mb
        self._jvm_options = list(jvm_options)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.started_in_s = 0.0

    def port(self, listener: str = CLIENT_LISTENER) -> int:
        return self._ports[listener]

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port()}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Apache Kafka is not running")
        return self._process.pid

    @property
    def folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("Apache Kafka is not running")
        return Path(self._folder.name)

    def __enter__(self) -> Self:
        java(), kafka_libs()
        self._folder = tempfile.TemporaryDirectory(prefix="apache-kafka-")
        try:
            (self.folder / "log4j2.xml").write_text(LOG4J)
            (self.folder / "server.properties").write_text(self._server_properties())
            self._format()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def start(self) -> None:
        """Start the node on its data and return when it serves clients; `started_in_s` is the time that this took."""
        began_s = time.monotonic()
        command = self.command("kafka.Kafka", str(self.folder / "server.properties"), heap_mb=self._heap_mb)
        with (self.folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError(f"Apache Kafka ended with code {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() - began_s > START_TIMEOUT_S:
                raise RuntimeError(f"Apache Kafka did not answer within {START_TIMEOUT_S} s:\n{self.log_tail()}")
            self._pause()
        self.started_in_s = time.monotonic() - began_s

    def stop(self) -> None:
        """Stop the node in a controlled way; the data stays for `start`."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def tool(self, main_class: str, *arguments: str, timeout_s: float = 180.0) -> str:
        """Run one of Kafka's command line tools and return its output; raise CalledProcessError if it fails."""
        done = subprocess.run(
            self.command(main_class, *arguments, heap_mb=128),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        return done.stdout

    def command(self, main_class: str, *arguments: str, heap_mb: int) -> list[str]:
        options = [f"-Xmx{heap_mb}m", f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}", *self._jvm_options]
        return [java(), *options, "-cp", f"{kafka_libs()}/*", main_class, *arguments]

    def log_tail(self) -> str:
        path = self.folder / "kafka.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else "(no log)"

    def _format(self) -> None:
        # An id may begin with a dash, so it is not an argument of its own.
        arguments = ("format", f"--cluster-id={self._cluster_id}", "-c", str(self.folder / "server.properties"))
        command = self.command("kafka.tools.StorageTool", *arguments, heap_mb=128)
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Apache Kafka's storage could not be formatted: {(done.stdout + done.stderr)[-2000:]}")

    def _server_properties(self) -> str:
        ports = self._ports
        values = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"{self.node_id}@{self.host}:{ports[CONTROLLER_LISTENER]}",
            "listeners": ",".join(f"{name}://{self.host}:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
            "inter.broker.listener.name": CLIENT_LISTENER,
            "controller.listener.names": CONTROLLER_LISTENER,
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        } | self.properties
        return "".join(f"{key}={value}\n" for key, value in values.items() if value)

    def _answers(self) -> bool:
        """Whether the node serves: Kafka opens its client listener when the controller has unfenced the broker."""
        try:
            socket.create_connection((self.host, self.port(self._ready_listener)), timeout=1).close()
        except OSError:
            return False
        return True

    def _pause(self) -> None:
        """Wait between two checks of the port; the wait ends early if the process ends."""
        assert self._process is not None
        try:
            self._process.wait(0.05)
        except subprocess.TimeoutExpired:
            return
