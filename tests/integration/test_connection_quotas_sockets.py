"""Connection quotas over real loopback sockets, on both event loops: what `tests/simulation` plays in virtual time."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import uvloop

from broker_runtime.clock import SystemClock
from broker_runtime.network.connection import Connection
from broker_runtime.network.poller import EpollPoller, LoopPoller, Poller
from broker_runtime.network.server import SocketServer
from broker_runtime.network.settings import NetworkLimits, QuotaSettings

PING = b"\x00\x00\x00\x04ping"


def echo(frame: memoryview, connection: Connection) -> tuple[bytes, bytes]:
    del connection
    return len(frame).to_bytes(4, "big"), bytes(frame)


class Bench:
    """A server on one loop, and blocking clients beside it: each call lets the loop run until its wish comes true."""

    def __init__(self, loop: asyncio.AbstractEventLoop, new_poller: Callable[[asyncio.AbstractEventLoop], Poller]):
        self.loop = loop
        self.new_poller = new_poller
        self.clients: list[socket.socket] = []
        self.server: SocketServer

    def serve(self, quotas: QuotaSettings, *listeners: str, limits: NetworkLimits | None = None) -> SocketServer:
        limits = replace(limits or NetworkLimits(), quotas=quotas)
        self.server = SocketServer(echo, limits, SystemClock(), self.loop, self.new_poller(self.loop))
        for name in listeners or ("EXTERNAL",):
            self.server.add_listener(name, "127.0.0.1", 0)
        self.server.start()
        return self.server

    def connect(self, listener: str = "EXTERNAL", source: str = "127.0.0.1") -> socket.socket:
        client = socket.create_connection(self.server.address(listener), timeout=5, source_address=(source, 0))
        client.setblocking(False)
        self.clients.append(client)
        return client

    def run_until(self, condition: Callable[[], bool], within_s: float = 5.0) -> None:
        async def poll() -> None:
            deadline = self.loop.time() + within_s
            while not condition():
                assert self.loop.time() < deadline, "the condition did not come true in time"
                await asyncio.sleep(0.002)

        self.loop.run_until_complete(poll())

    def receive(self, client: socket.socket, within_s: float = 5.0) -> bytes | None:
        """What the client gets next; None when the connection was reset."""

        async def get() -> bytes | None:
            try:
                return await asyncio.wait_for(self.loop.sock_recv(client, 65536), within_s)
            except ConnectionResetError:
                return None

        return self.loop.run_until_complete(get())

    def ask(self, client: socket.socket) -> bool:
        """Whether the server answers."""
        client.sendall(PING)
        return self.receive(client) == PING

    def metric(self, name: str, **labels: str) -> float:
        return next(s.value for s in self.server.collect() if s.name.endswith(name) and s.labels == labels)


@pytest.fixture(params=["uvloop+epoll", "asyncio+epoll", "uvloop+loop", "asyncio+loop"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    loop_kind, poller_kind = request.param.split("+")
    loop = uvloop.new_event_loop() if loop_kind == "uvloop" else asyncio.new_event_loop()
    bench = Bench(loop, EpollPoller if poller_kind == "epoll" else LoopPoller)
    yield bench
    for client in bench.clients:
        client.close()
    loop.run_until_complete(bench.server.shutdown(drain_s=1))
    loop.close()


def test_a_listener_over_its_rate_makes_the_next_client_wait_and_then_serves_it(bench: Bench) -> None:
    bench.serve(QuotaSettings(max_connection_creation_rate=5, quota_window_num=2))
    clients = [bench.connect() for _ in range(6)]
    assert all(bench.ask(client) for client in clients[:5])
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    start_s = bench.loop.time()
    assert bench.ask(clients[5])
    assert 0.05 < bench.loop.time() - start_s < 1
    assert bench.metric("blocked_seconds_total", listener="EXTERNAL") > 0.1
    assert bench.metric("connection_accept_throttle_time_ms", listener="EXTERNAL") > 0
