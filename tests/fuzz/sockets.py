"""Sends changed requests to a real broker, over each kind of listener, beside an honest client."""

import random
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.fuzz.frames import before_authentication, changed_frames, valid_frames
from tests.support.processes.broker_process import BrokerProcess
from tests.support.requests.request_frames import encode_request
from tests.support.tls.secure_broker import LISTENER, TlsWorld

SASL = "SASLED"
USER, PASSWORD = "alice", "secret"
_SHARES: Mapping[str, float] = {"PLAINTEXT": 0.55, "before SASL": 0.15, "after SASL": 0.2, "SSL": 0.1}
"""Where the frames go."""
_OPEN = 150
_WAIT_S = 0.2
"""Time for an answer. A changed Fetch may wait for as long as it requests."""
_FRAMES_OF_A_CONNECTION = 40
_TIMEOUT_S = 30.0
_HONEST_EVERY = 200
_HONEST_TOPIC = "honest"
Connect = Callable[[], socket.socket]


@dataclass(slots=True)
class Report:
    """The report of a run: what was sent, and the state of the broker afterwards."""

    sent: dict[str, int]
    connections: int
    honest: int
    """Records that the honest client has produced and read."""
    resident_before: int
    resident_after: int
    seconds: float
    complaints: int
    """Warnings and errors in the broker's log."""

    def line(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.sent.items())
        grown = (self.resident_after - self.resident_before) / 1e6
        return (
            f"{sum(self.sent.values())} frames ({kinds}) over {self.connections} connections in {self.seconds:.0f} s; "
            f"{self.honest} honest records; memory {grown:+.1f} MB; {self.complaints} lines of warnings"
        )


class _Lane:
    """Sends frames over connections of one kind, one frame at a time on each."""

    def __init__(self, connect: Connect, frames: Iterator[bytes], count: int) -> None:
        self._connect = connect
        self._frames = frames
        self._left = count
        self._selector = selectors.DefaultSelector()
        self._since: dict[socket.socket, tuple[float, int]] = {}
        self.connections = 0

    def run(self, pause: Callable[[int], None]) -> None:
        """Send all frames; `pause` is called after each round with the number of frames so far."""
        total = self._left
        while self._left or self._since:
            while self._left and len(self._since) < _OPEN:
                self._open()
            for key, _ in self._selector.select(0.05):
                self._answered(key.fileobj)  # type: ignore[arg-type]
            now_s = time.monotonic()
            for one in [one for one, (since_s, _) in self._since.items() if now_s - since_s > _WAIT_S]:
                self._close(one)
            pause(total - self._left)
        self._selector.close()

    def _open(self) -> None:
        one = self._connect()
        self.connections += 1
        self._selector.register(one, selectors.EVENT_READ)
        self._send(one, 0)

    def _send(self, one: socket.socket, number: int) -> None:
        if not self._left or number >= _FRAMES_OF_A_CONNECTION:
            self._close(one)
            return
        self._left -= 1
        self._since[one] = time.monotonic(), number
        try:
            one.sendall(next(self._frames))
        except OSError:
            self._close(one)

    def _answered(self, one: socket.socket) -> None:
        if one not in self._since:
            return
        try:
            data = one.recv(1 << 16)
        except ssl.SSLWantReadError:
            return
        except OSError:
            data = b""
        if data:
            self._send(one, self._since[one][1] + 1)
        else:
            self._close(one)

    def _close(self, one: socket.socket) -> None:
        self._since.pop(one, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(one)
        one.close()


class Honest:
    """A client that produces numbers and reads all of them back."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._failed: list[object] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
        self.produced = 0

    def produce(self) -> None:
        def delivered(error: object, _: object) -> None:
            if error is not None:
                self._failed.append(error)

        self._producer.produce(_HONEST_TOPIC, str(self.produced).encode(), on_delivery=delivered)
        self._producer.poll(0)
        self.produced += 1

    def check(self) -> None:
        """Check that each record was acknowledged, and is read once and in order."""
        assert self._producer.flush(60) == 0
        assert self._failed == []
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "honest", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(_HONEST_TOPIC, 0, 0)])
            for number in range(self.produced):
                message = consumer.poll(60)
                assert message is not None, f"record {number} is missing"
                assert message.error() is None, message.error()
                assert message.value() == str(number).encode()
        finally:
            consumer.close()


@contextmanager
def storm_broker() -> Iterator[tuple[BrokerProcess, Mapping[str, Connect]]]:
    """A broker with listeners of all kinds, and how to connect to each."""
    with ExitStack() as undo:
        world = TlsWorld(Path(undo.enter_context(TemporaryDirectory(prefix="sluicegate-fuzz-"))))
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        properties = {
            **world.properties(),
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{SASL}:SASL_PLAINTEXT,{LISTENER}:SSL",
            f"listener.name.{SASL.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{SASL.lower()}.plain.sasl.jaas.config": login,
        }
        broker = undo.enter_context(BrokerProcess(listeners=[SASL, LISTENER], properties=properties))
        context = ssl.create_default_context(cafile=str(world.trusted))

        def plain(listener: str) -> socket.socket:
            return socket.create_connection((broker.host, broker.port(listener)), timeout=_TIMEOUT_S)

        def secure() -> socket.socket:
            return context.wrap_socket(plain(LISTENER), server_hostname="localhost")

        yield (
            broker,
            {
                "PLAINTEXT": lambda: plain("PLAINTEXT"),
                "before SASL": lambda: plain(SASL),
                "after SASL": lambda: authenticated(plain(SASL)),
                "SSL": secure,
            },
        )


def authenticated(one: socket.socket) -> socket.socket:
    """Authenticate, and return the connection."""
    for key, content in (
        (17, {"mechanism": "PLAIN"}),
        (36, {"auth_bytes": f"\0{USER}\0{PASSWORD}".encode()}),
    ):
        one.sendall(encode_request(key, 1, 1, content))
        size = int.from_bytes(one.recv(4, socket.MSG_WAITALL), "big")
        answer = one.recv(size, socket.MSG_WAITALL)
        assert answer[4:6] == b"\0\0", answer
    return one


def storm(count: int, seed: int) -> Report:
    """Send `count` changed frames to a broker, and check that it is as it was. Raises AssertionError."""
    rng = random.Random(seed)
    valid, first = valid_frames(rng), before_authentication()
    with storm_broker() as (broker, connects):
        honest = Honest(broker.bootstrap)
        honest.produce()
        pid = broker.pid
        # The first frames of each kind import modules and fill caches.
        _send_all(connects, max(200, count // 10), valid, first, rng, lambda _: None)
        before, began_s = broker.resident_bytes(), time.monotonic()

        def pause(sent: int) -> None:
            while honest.produced <= sent // _HONEST_EVERY:
                honest.produce()

        sent, connections = _send_all(connects, count, valid, first, rng, pause)
        took_s = time.monotonic() - began_s
        honest.check()
        log = broker.log()
        assert broker.poll() is None, log[-4000:]
        assert broker.pid == pid
        assert broker.get("/readyz")[0] == 200
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
        assert "handler-failed" not in log
        complaints = sum("WARNING" in line or "ERROR" in line for line in log.splitlines())
        return Report(sent, connections, honest.produced, before, broker.resident_bytes(), took_s, complaints)


def _send_all(
    connects: Mapping[str, Connect],
    count: int,
    valid: Sequence[bytes],
    first: Sequence[bytes],
    rng: random.Random,
    pause: Callable[[int], None],
) -> tuple[dict[str, int], int]:
    sent: dict[str, int] = {}
    connections = 0
    for kind, share in _SHARES.items():
        frames = changed_frames(first if kind == "before SASL" else valid, rng)
        sent[kind] = max(1, int(count * share))
        lane = _Lane(connects[kind], frames, sent[kind])
        lane.run(pause)
        connections += lane.connections
    return sent, connections
