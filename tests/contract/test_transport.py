"""The promises of a transport to its connection, for each kind: a TCP socket, memory, or TLS, accepted and dialled."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest

from broker_runtime.network.connection.output import send
from broker_runtime.network.sockets.tls_transport import TlsTransport
from broker_runtime.network.sockets.transport import FileUnreadableError, PlainTransport, Transport
from broker_runtime.wire.answer_memory import READ_AHEAD_BYTES
from broker_runtime.wire.reply import Chunk, FileRegion
from tests.support.dashboards.certificate import make_certificate
from tests.support.fakes.memory_transport import EncryptingTransport, MemoryTransport
from tests.support.fakes.tls_transport import BufferedTls, tls_contexts
from tests.support.logs.open_file import OpenFile

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
HOST = "broker.example"


class Peer(Protocol):
    """The other end, which the test plays."""

    def send(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def received(self) -> bytes:
        """All bytes since the last call; makes space for more."""
        ...


class SocketPeer:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def received(self) -> bytes:
        found = bytearray()
        with suppress(BlockingIOError):
            while part := self._socket.recv(1 << 20):
                found += part
        return bytes(found)


class MemoryPeer:
    ROOM = 100_000

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        transport.room = self.ROOM

    def send(self, data: bytes) -> None:
        self._transport.arrive(data)

    def end(self) -> None:
        self._transport.end()

    def received(self) -> bytes:
        found = bytes(self._transport.sent)
        self._transport.sent.clear()
        self._transport.room = self.ROOM
        return found


class TlsPeer:
    """The other end of a socket, which speaks TLS."""

    def __init__(self, transport: BufferedTls, connected: socket.socket) -> None:
        self._transport = transport
        self._socket = connected

    def send(self, data: bytes) -> None:
        while data:
            data = data[self._transport.write([data]) :]

    def end(self) -> None:
        self._transport.end()
        self._socket.shutdown(socket.SHUT_WR)

    def received(self) -> bytes:
        return receive_all(self._transport, 1 << 20)


Ends = tuple[Transport, Peer]


@contextmanager
def socket_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def _plain(_: Contexts) -> Iterator[Ends]:
    with socket_pair() as (ours, theirs):
        yield PlainTransport(ours), SocketPeer(theirs)


def _memory(_: Contexts) -> Iterator[Ends]:
    transport = MemoryTransport()
    yield transport, MemoryPeer(transport)


def _encrypting(_: Contexts) -> Iterator[Ends]:
    transport = EncryptingTransport()
    yield transport, MemoryPeer(transport)


def _tls_accepted(contexts: Contexts) -> Iterator[Ends]:
    with socket_pair() as (ours, theirs):
        accepted = TlsTransport(ours, contexts[0], no_principal)
        dialled = BufferedTls(PlainTransport(theirs), contexts[1], server_name=HOST)
        shake_hands(accepted, dialled)
        yield accepted, TlsPeer(dialled, theirs)
        accepted.close()


def _tls_dialled(contexts: Contexts) -> Iterator[Ends]:
    with socket_pair() as (ours, theirs):
        dialled = TlsTransport(ours, contexts[1], no_principal, server_name=HOST)
        accepted = BufferedTls(PlainTransport(theirs), contexts[0], server_name=None)
        shake_hands(accepted, dialled)
        yield dialled, TlsPeer(accepted, theirs)
        dialled.close()


def no_principal(certificate: bytes | None) -> None:
    assert certificate is None or certificate[0] == 0x30


def shake_hands(*ends: Transport) -> None:
    """Complete the handshakes by the first calls of both sides, which have nothing to receive yet."""
    for _ in range(3):
        for end in ends:
            with pytest.raises(BlockingIOError):
                end.receive_into(memoryview(bytearray(1)))


KINDS = {
    "plain": _plain,
    "memory": _memory,
    "encrypting": _encrypting,
    "tls accepted": _tls_accepted,
    "tls dialled": _tls_dialled,
}


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    made = make_certificate(tmp_path_factory.mktemp("tls"), HOST)
    return tls_contexts(str(made.certificate), str(made.key))


@pytest.fixture(params=KINDS)
def ends(request: pytest.FixtureRequest, contexts: Contexts) -> Iterator[Ends]:
    make: Callable[[Contexts], Iterator[Ends]] = KINDS[request.param]
    yield from make(contexts)


def receive_all(transport: Transport, space_bytes: int) -> bytes:
    found = bytearray()
    space = memoryview(bytearray(space_bytes))
    with suppress(BlockingIOError):
        while count := transport.receive_into(space):
            found += space[:count]
    return bytes(found)


@pytest.mark.parametrize("space_bytes", [1, 1_000, 200_000])
def test_bytes_are_received_in_order_and_then_reading_would_block(ends: Ends, space_bytes: int) -> None:
    transport, peer = ends
    with pytest.raises(BlockingIOError):
        transport.receive_into(memoryview(bytearray(10)))
    sent = bytes(range(256)) * 100
    peer.send(sent)
    assert receive_all(transport, space_bytes) == sent
    assert not transport.holds_bytes, "whoever waits for the socket now misses nothing"
    with pytest.raises(BlockingIOError):
        transport.receive_into(memoryview(bytearray(10)))


def test_one_call_receives_what_the_peer_has_sent_in_parts(ends: Ends) -> None:
    transport, peer = ends
    for part in (b"one", b"two", b"three"):
        peer.send(part)
    space = memoryview(bytearray(100))
    assert bytes(space[: transport.receive_into(space)]) == b"onetwothree"
    peer.send(b"last")
    peer.end()
    assert bytes(space[: transport.receive_into(space)]) == b"last"
    assert transport.receive_into(space) == 0


def test_the_peers_end_of_stream_follows_its_data_and_leaves_our_side_open(ends: Ends) -> None:
    transport, peer = ends
    peer.send(b"last words")
    peer.end()
    space = memoryview(bytearray(100))
    assert transport.receive_into(space) == 10
    assert transport.receive_into(space) == 0
    assert transport.write([b"an answer"]) == 9
    assert peer.received() == b"an answer"


def test_unsent_bytes_are_offered_again_from_their_position(ends: Ends) -> None:
    transport, peer = ends
    chunks: list[Chunk] = [bytes([number]) * 50_000 for number in range(60)]
    whole = b"".join(bytes(chunk) for chunk in chunks if isinstance(chunk, bytes))
    taken = 0
    arrived = b""
    rounds = 0
    while chunks:
        taken += send(transport, chunks)
        arrived += peer.received()
        rounds += 1
        assert rounds < 1_000
    assert arrived == whole
    assert taken == len(whole)
    assert rounds > 1, "there was not place for all of it at once"


@pytest.mark.parametrize("count", [1024, 1025, 5000])
def test_one_write_takes_some_of_any_number_of_buffers(ends: Ends, count: int) -> None:
    transport, peer = ends
    left = [b"%d," % number for number in range(count)]
    whole = b"".join(left)
    arrived = b""
    while left:
        taken = transport.write(left)
        arrived += peer.received()
        assert taken > 0
        while left and taken >= len(left[0]):
            taken -= len(left.pop(0))
        if taken:
            left[0] = left[0][taken:]
    assert arrived == whole


def test_parts_of_files_are_sent_between_bytes(ends: Ends, tmp_path: Path) -> None:
    transport, peer = ends
    content = bytes(range(251)) * 1_000
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    with path.open("rb") as opened:
        file = OpenFile(opened)
        chunks: list[Chunk] = [b"a", FileRegion(file, 7, 200_000), b"b", FileRegion(file, 0, 500), b"c"]
        arrived = b""
        while chunks:
            send(transport, chunks)
            arrived += peer.received()
    assert arrived == b"a" + content[7:200_007] + b"b" + content[:500] + b"c"


def test_small_parts_of_files_are_read_only_as_the_peer_takes_them(ends: Ends, tmp_path: Path) -> None:
    """Otherwise a peer that takes nothing would keep all of them in memory."""
    transport, peer = ends
    content = bytes(range(250)) * 120
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    with path.open("rb") as opened:
        file = OpenFile(opened)
        chunks: list[Chunk] = [FileRegion(file, 0, len(content)) for _ in range(600)]
        taken, arrived = 0, bytearray()
        for _ in range(10):
            taken += send(transport, chunks)
            in_memory = sum(len(chunk) for chunk in chunks if not isinstance(chunk, FileRegion))
            assert in_memory <= READ_AHEAD_BYTES
        assert taken < 600 * len(content), "the peer has taken nothing"
        while chunks:
            taken += send(transport, chunks)
            arrived += peer.received()
    assert bytes(arrived) == content * 600


def test_a_file_that_ends_before_the_region_is_told_apart_from_a_stream_that_failed(ends: Ends, tmp_path: Path) -> None:
    transport, peer = ends
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(10))
    with path.open("rb") as opened, pytest.raises(FileUnreadableError, match="shorter than its index says"):
        transport.send_region(FileRegion(OpenFile(opened), 10, 100_000))
    assert transport.write([b"the stream is well"]) == 18
    assert peer.received() == b"the stream is well"


def test_a_waiting_transport_watches_its_socket(ends: Ends) -> None:
    transport, _ = ends
    assert transport.waits_for(read=False, write=False) == (False, False)
    assert any(transport.waits_for(read=True, write=False))
    assert any(transport.waits_for(read=False, write=True))


def test_a_closed_one_has_no_descriptor_and_fails(ends: Ends) -> None:
    transport, _ = ends
    assert transport.fileno() >= 0
    transport.close()
    assert transport.fileno() < 0
    with pytest.raises(OSError):
        transport.write([b"too late"])
