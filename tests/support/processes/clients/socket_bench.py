"""A network server and plain blocking-style clients on one event loop, for tests over real loopback sockets."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import uvloop

from broker_runtime.clock import SystemClock
from broker_runtime.network.server import SocketServer
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.poller import EpollPoller, LoopPoller, Poller
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import FrameHandler, ServedConnection
from connection_limits.settings import QuotaSettings

BENCHES = (
    "uvloop+epoll",
    pytest.param("asyncio+epoll", marks=pytest.mark.full),
    pytest.param("uvloop+loop", marks=pytest.mark.full),
    "asyncio+loop",
)
"""Event loops and pollers, as parameters of a fixture. `make test` has each loop and each poller once."""

PATIENCE_S = 30.0
"""Time-out of waits that take milliseconds on an idle machine."""

PING = b"\x00\x00\x00\x04ping"


def echo(frame: memoryview, connection: ServedConnection) -> tuple[bytes, bytes]:
    del connection
    return len(frame).to_bytes(4, "big"), bytes(frame)


class Bench:
    """A server on one loop, and blocking clients beside it: each call runs the loop until its condition holds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, poller_kind: str) -> None:
        self.loop = loop
        self.poller_kind = poller_kind
        self.clients: list[socket.socket] = []
        self.server: SocketServer

    def serve(
        self,
        quotas: QuotaSettings | None = None,
        *listeners: str,
        limits: NetworkLimits | None = None,
        handler: FrameHandler = echo,
        answers: AnswerMemory | None = None,
    ) -> SocketServer:
        limits = replace(limits or NetworkLimits(), quotas=quotas or QuotaSettings())
        poller = self.new_poller(limits.turn_s)
        self.server = SocketServer(handler, limits, SystemClock(), self.loop, poller, answers)
        for name in listeners or ("EXTERNAL",):
            self.server.add_listener(name, "127.0.0.1", 0)
        self.server.start()
        return self.server

    def new_poller(self, slice_s: float) -> Poller:
        now = SystemClock().monotonic
        return EpollPoller(self.loop, now, slice_s) if self.poller_kind == "epoll" else LoopPoller(self.loop)

    @property
    def connection_count(self) -> int:
        return self.server.quotas.total

    @property
    def buffered_bytes(self) -> float:
        return self.metric("buffered_request_bytes")

    def connect(self, listener: str = "EXTERNAL", source: str = "127.0.0.1") -> socket.socket:
        client = socket.create_connection(self.server.address(listener), timeout=PATIENCE_S, source_address=(source, 0))
        client.setblocking(False)
        self.clients.append(client)
        return client

    def run_until(self, condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        async def poll() -> None:
            deadline = self.loop.time() + within_s
            while not condition():
                assert self.loop.time() < deadline, "the condition did not come true in time"
                await asyncio.sleep(0.002)

        self.loop.run_until_complete(poll())

    def receive(self, client: socket.socket, within_s: float = PATIENCE_S) -> bytes:
        """The next data of the client; empty when the connection has ended."""

        async def get() -> bytes:
            try:
                return await asyncio.wait_for(self.loop.sock_recv(client, 65536), within_s)
            except ConnectionResetError:
                return b""

        return self.loop.run_until_complete(get())

    def receive_exactly(self, client: socket.socket, count: int) -> bytes:
        parts = []
        while count > 0:
            part = self.receive(client)
            assert part, f"the connection ended with {count} bytes missing"
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def exchange(self, client: socket.socket, sent: bytes, expected_bytes: int) -> bytes:
        """Send and receive at the same time, so that neither side waits for the other to read."""

        async def both() -> bytes:
            sending = asyncio.ensure_future(self.loop.sock_sendall(client, sent))
            received = bytearray()
            while len(received) < expected_bytes:
                part = await asyncio.wait_for(self.loop.sock_recv(client, 1 << 20), PATIENCE_S)
                assert part, f"the connection ended after {len(received)} of {expected_bytes} bytes"
                received += part
            await sending
            return bytes(received)

        return self.loop.run_until_complete(both())

    def ask(self, client: socket.socket) -> bool:
        """Whether the server answers."""
        try:
            client.sendall(PING)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return self.receive(client) == PING

    def is_open(self, client: socket.socket) -> bool:
        """Whether the server still has its end open, as far as the client can see now."""
        try:
            return client.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def metric(self, name: str, **labels: str) -> float:
        """The value of a series; zero if it has not appeared yet."""
        found = [s.value for s in self.server.collect() if s.name.endswith(name) and s.labels == labels]
        return found[0] if found else 0.0


def bench_on(kind: str) -> Iterator[Bench]:
    """A bench for a fixture: `kind` is one of BENCHES."""
    loop_kind, poller_kind = kind.split("+")
    loop = uvloop.new_event_loop() if loop_kind == "uvloop" else asyncio.new_event_loop()
    bench = Bench(loop, poller_kind)
    yield bench
    for client in bench.clients:
        client.close()
    loop.run_until_complete(bench.server.shutdown(drain_s=1))
    loop.close()
