"""Apache Kafka 4.3.0 itself, as a single node on loopback: what our broker and our clients are compared with.

    with ApacheKafka(listeners=["EXTERNAL"], properties={"num.partitions": "3"}) as kafka:
        connect(kafka.bootstrap, kafka.port("EXTERNAL"))
        kafka.tool("kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap, "--describe", ...)

The jars come from the folder in SLUICEGATE_KAFKA_LIBS, else from the cache, else Maven fetches them once
(kafka-pom.xml). Knows nothing of our own broker.
"""

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

VERSION = "4.3.0"
POM = Path(__file__).with_name("kafka-pom.xml")
LIBS_VARIABLE = "SLUICEGATE_KAFKA_LIBS"
MAVEN_TIMEOUT_S = 600
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


class KafkaUnavailable(Exception):  # noqa: N818 - says a state of this machine, not a mistake
    """This machine cannot run Apache Kafka; the sentence says what is missing."""


def kafka_libs() -> Path:
    """The folder with Kafka's jars, fetched when it is not there yet. Raises KafkaUnavailable."""
    if chosen := os.environ.get(LIBS_VARIABLE):
        folder = Path(chosen)
        if not _is_complete(folder):
            raise KafkaUnavailable(f"{LIBS_VARIABLE} names {folder}, which has no kafka_2.13-{VERSION}.jar")
        return folder
    cache_root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_root / "sluicegate" / f"kafka-{VERSION}" / "libs"
    if not _is_complete(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_suffix(".lock")):
            if not _is_complete(folder):
                _fetch(folder)
    return folder


def _is_complete(folder: Path) -> bool:
    """Maven writes to another folder that is renamed at the end, so one jar stands for all."""
    return (folder / f"kafka_2.13-{VERSION}.jar").is_file()


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(
            f"Apache Kafka {VERSION} is not in {folder} and Maven (mvn) is not installed to fetch it; "
            f"install Maven, or let {LIBS_VARIABLE} name a folder with its jars"
        )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        shutil.copy(POM, Path(scratch) / "pom.xml")
        command = [maven, "-q", "-B", "-f", f"{scratch}/pom.xml"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={scratch}/libs"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
        if done.returncode != 0 or not _is_complete(Path(scratch) / "libs"):
            raise KafkaUnavailable(
                f"Maven could not fetch Apache Kafka {VERSION}: {(done.stdout + done.stderr)[-800:]}"
            )
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "libs").rename(folder)


@cache
def java() -> str:
    """The path of a Java of release 17 or later. Raises KafkaUnavailable."""
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailable(f"Apache Kafka {VERSION} needs Java 17 or later, and java is not on the PATH")
    shown = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    release = shown.split('"')[1] if '"' in shown else shown
    if int(release.split(".")[0]) < 17:
        raise KafkaUnavailable(f"Apache Kafka {VERSION} needs Java 17 or later; {found} is {release}")
    return found


_PORTS = range(12_000, 32_000)
"""Below those that systems give to outgoing connections, which would take a port before its process binds it."""
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on and that this process has not been given before."""
    while True:
        # Tests that run at the same time may have the same seed; their ports must differ all the same.
        port = secrets.choice(_PORTS)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class ApacheKafka:
    """One node, broker and controller, started on entering and gone with its data on leaving.

    `listeners` names more PLAINTEXT listeners beside the one of the same name, which is also the inter-broker one;
    `properties` are added to or replace those of server.properties. Raises KafkaUnavailable on entering.
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
        """`ready_listener` is the one whose opening says that the node serves; a controller alone has no other."""
        self.node_id = node_id
        self._cluster_id = cluster_id or urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._ready_listener = ready_listener
        self.host = "127.0.0.1"
        self._ports = {name: free_port() for name in (CLIENT_LISTENER, CONTROLLER_LISTENER, *listeners)}
        self.properties = dict(properties or {})
        """What is empty is left out of server.properties."""
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
        """Starts the node on its data and returns when it serves clients; `started_in_s` says how long it took."""
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
        """A controlled stop; the data stays for `start`."""
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
        """Runs one of Kafka's own command line tools; what it printed, or CalledProcessError."""
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
        """Kafka opens its client listener when the controller has unfenced the broker."""
        try:
            socket.create_connection((self.host, self.port(self._ready_listener)), timeout=1).close()
        except OSError:
            return False
        return True

    def _pause(self) -> None:
        """Between two looks at the port; ends early when the process does."""
        assert self._process is not None
        try:
            self._process.wait(0.05)
        except subprocess.TimeoutExpired:
            return
