"""A broker's connection and a client's, over real sockets: the same whether their transports encrypt or not."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_runtime.clock import SystemClock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.network.connection.channel import Channel
from broker_runtime.network.connection.connection import Origin
from broker_runtime.network.connection.outgoing.client_connection import ClientConnection
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.settings import ClientLimits, NetworkLimits
from broker_runtime.network.sockets.poller import LoopPoller, Poller, default_poller
from broker_runtime.network.sockets.tls_transport import TlsTransport
from broker_runtime.network.sockets.transport import PlainTransport, Transport
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.header import prefix, read_header
from broker_runtime.wire.reply import FileRegion, Reply
from broker_runtime.wire.versions import FETCH
from tests.support.dashboards.certificate import Certificate, make_certificate
from tests.support.fakes.tls_transport import tls_contexts
from tests.support.logs.open_file import OpenFile

PATIENCE_S = 60.0
HOST = "broker.example"
LIMITS = ClientLimits(response_bytes_max=64 * 1024 * 1024, in_flight_max=100, connect_timeout_s=PATIENCE_S)
Wrap = Callable[[socket.socket], Transport]


class Server:
    """Serves one connection; it answers a request with its body twice: as bytes, and out of `file`."""

    def __init__(self, transport: Transport, file: OpenFile | None) -> None:
        loop = asyncio.get_running_loop()
        clock = SystemClock()
        self.poller: Poller = default_poller(loop, clock.monotonic, 0.002)
        self.problems: list[str] = []
        self.ended = asyncio.Event()
        self._file = file
        shared = Shared(loop, self.poller, clock, NetworkLimits(), self._answer)
        shared.host = self
        channel = Channel(transport, Origin(1, "EXTERNAL", ("127.0.0.1", 1), clock.monotonic()), shared)
        self.connection = channel.connection
        channel.start()

    def _answer(self, frame: memoryview, connection: ServedConnection) -> Reply:
        correlation_id, end = read_header(frame)[2], read_header(frame)[4] + 1
        body = bytes(frame[end:])
        if self._file is None:
            return prefix(correlation_id, len(body), True), body
        return prefix(correlation_id, 2 * len(body), True), body, FileRegion(self._file, 0, len(body))

    def memory_freed(self, waiting: Iterable[int]) -> None:
        self.connection.ask_for_slice()

    def connection_closed(self, connection: ServedConnection) -> None:
        self.ended.set()

    def connection_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        self.problems.append(f"{kind}: {text}")

    request_refused = connection_refused

    def handler_failed(self, connection: ServedConnection, error: Exception) -> None:
        self.problems.append(repr(error))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificate, Certificate]:
    """The server's certificate, and a foreign one."""
    return make_certificate(tmp_path_factory.mktemp("one"), HOST), make_certificate(
        tmp_path_factory.mktemp("two"), HOST
    )


@pytest.fixture(params=["plain", "tls"])
def wraps(request: pytest.FixtureRequest, certificates: tuple[Certificate, Certificate]) -> tuple[Wrap, Wrap]:
    return (PlainTransport, PlainTransport) if request.param == "plain" else tls_wraps(certificates[0], certificates[0])


def tls_wraps(shown: Certificate, trusted: Certificate) -> tuple[Wrap, Wrap]:
    server, _ = tls_contexts(str(shown.certificate), str(shown.key))
    _, client = tls_contexts(str(trusted.certificate), str(trusted.key))
    return (
        lambda accepted: TlsTransport(accepted, server, lambda _: None),
        lambda connected: TlsTransport(connected, client, lambda _: None, server_name=HOST),
    )


@contextmanager
def connected(wraps: tuple[Wrap, Wrap], file: OpenFile | None = None) -> Iterator[tuple[Server, ClientConnection]]:
    theirs, ours = socket.socketpair()
    theirs.setblocking(False)
    ours.setblocking(False)
    poller = LoopPoller(asyncio.get_running_loop())
    server = Server(wraps[0](theirs), file)
    client = ClientConnection(wraps[1](ours), "broker 1", LIMITS, poller)
    try:
        yield server, client
    finally:
        client.close()
        server.connection.close()
        server.poller.close()


async def test_requests_are_answered_however_many_and_large_they_are(wraps: tuple[Wrap, Wrap]) -> None:
    with connected(wraps) as (server, client):
        async with asyncio.timeout(PATIENCE_S):
            for size in (0, 1, 5_000, 3_000_000):
                body = bytes(range(250)) * (size // 250 + 1)
                assert bytes(await client.exchange(FETCH, 12, body)) == body
            bodies = [bytes([number]) * (number * 1_000) for number in range(90)]
            answers = await asyncio.gather(*(client.exchange(FETCH, 12, body) for body in bodies))
        assert [bytes(answer) for answer in answers] == bodies
        assert not server.problems


async def test_parts_of_files_reach_the_client_between_bytes(wraps: tuple[Wrap, Wrap], tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    content = bytes(range(251)) * 10_000
    path.write_bytes(content)
    with path.open("rb") as opened, connected(wraps, OpenFile(opened)) as (server, client):
        async with asyncio.timeout(PATIENCE_S):
            for size in (100, 2_500_000):
                body = b"x" * size
                assert bytes(await client.exchange(FETCH, 12, body)) == body + content[:size]
        assert not server.problems


@pytest.mark.parametrize("who", ["client", "server"])
async def test_the_end_of_one_side_reaches_the_other(wraps: tuple[Wrap, Wrap], who: str) -> None:
    with connected(wraps) as (server, client):
        async with asyncio.timeout(PATIENCE_S):
            await client.exchange(FETCH, 12, b"")
            if who == "client":
                client.close()
                await server.ended.wait()
            else:
                asking = asyncio.ensure_future(client.exchange(FETCH, 12, b""))
                server.connection.close()
                with pytest.raises(KafkaError) as error:
                    await asking
                assert error.value.code == ErrorCode.BROKER_NOT_AVAILABLE
        assert not server.problems


async def test_a_server_with_another_certificate_is_not_talked_to(
    certificates: tuple[Certificate, Certificate],
) -> None:
    with connected(tls_wraps(*certificates)) as (_, client):
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(KafkaError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.exchange(FETCH, 12, b"secret")
