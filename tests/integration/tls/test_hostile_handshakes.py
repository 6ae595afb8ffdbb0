"""Handshakes that stop, are slow, renegotiate or bring certificates without end: other clients do not notice them."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import request_frame
from tests.support.tls.hostile_handshakes import client_hello, long_chain, open_many, renegotiate
from tests.support.tls.secure_broker import LISTENER, TlsWorld

PATIENCE_S = 60
TIMEOUT_MS = 3_000
AT_ONCE_MAX = 300
SERVER = "kafka_server_socket_server_"
ASK = request_frame("api_versions", 0, 1, {})
BYTES_OF_A_HANDSHAKE = 60_000
BYTES_OF_A_CONNECTION = 4_000
BYTES_BESIDE = 24_000_000
"""Growth that does not depend on connections: modules, buffers, and what the allocator keeps."""


def started(world: TlsWorld, **more: str) -> BrokerProcess:
    properties = {**world.properties(ssl_client_auth="requested"), **{key.replace("_", "."): more[key] for key in more}}
    return BrokerProcess(listeners=[LISTENER], properties=properties)


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    with started(world, sluicegate_tls_handshake_timeout_ms=str(TIMEOUT_MS)) as process:
        yield process


def address(broker: BrokerProcess) -> tuple[str, int]:
    return broker.host, broker.port(LISTENER)


def secured(broker: BrokerProcess, world: TlsWorld, newest: ssl.TLSVersion | None = None) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(world.trusted))
    if newest is not None:
        context.maximum_version = newest
    plain = socket.create_connection(address(broker), timeout=PATIENCE_S)
    return context.wrap_socket(plain, server_hostname="localhost")


def answered_in_s(session: ssl.SSLSocket) -> float:
    began_s = time.monotonic()
    session.sendall(ASK)
    size = int.from_bytes(session.recv(4), "big")
    while size > 0:
        size -= len(session.recv(size))
    return time.monotonic() - began_s


def refusals(broker: BrokerProcess, kind: str) -> float:
    return broker.metrics().get(f'{SERVER}refused_total{{kind="{kind}"}}', 0)


def connections(broker: BrokerProcess) -> float:
    return broker.metrics()[f'{SERVER}connection_count{{listener="{LISTENER}"}}']


def storm(world: TlsWorld, count: int, at_once_max: int) -> list[float]:
    """Send beginnings of handshakes, and return how long an established client has waited for its answers meanwhile."""
    hello = client_hello()
    limits = {
        "sluicegate_tls_handshakes_max": str(at_once_max),
        "sluicegate_tls_handshake_timeout_ms": "600000",
    }
    with started(world, **limits) as broker, secured(broker, world) as honest, ExitStack() as undo:
        answered_in_s(honest)
        before, waited_s = broker.resident_bytes(), []
        for _ in range(10):
            for one in open_many(address(broker), (b"", hello[:200], hello), count // 10):
                undo.enter_context(one)
            waited_s.append(answered_in_s(honest))
        silent = count // 10 // 3 * 10
        until(
            lambda: refusals(broker, "tls-too-many-handshakes") >= count - 1.5 * silent - at_once_max,
            "handshakes beyond the limit end",
        )
        waited_s += [answered_in_s(honest) for _ in range(20)]
        grown = broker.resident_bytes() - before
        assert grown < at_once_max * BYTES_OF_A_HANDSHAKE + count * BYTES_OF_A_CONNECTION + BYTES_BESIDE, grown
        with secured(broker, world) as late:
            answered_in_s(late)
        assert "Traceback" not in broker.log()
        print(f"{count} hostile connections: memory {grown / 1e6:+.0f} MB, longest answer {max(waited_s):.3f} s")
        return waited_s


def test_beginnings_of_handshakes_take_bounded_memory(world: TlsWorld) -> None:
    assert max(storm(world, 900, AT_ONCE_MAX)) < PATIENCE_S / 6


@pytest.mark.full
@pytest.mark.timeout(900)
def test_ten_thousand_hostile_connections_take_bounded_memory(world: TlsWorld) -> None:
    waited_s = sorted(storm(world, 10_000, 2_000))
    assert waited_s[len(waited_s) // 2] < 1.0
    assert waited_s[-1] < PATIENCE_S / 6


def test_a_handshake_byte_by_byte_ends_at_its_deadline(broker: BrokerProcess, world: TlsWorld) -> None:
    before, hello = refusals(broker, "tls-handshake-overdue"), client_hello()
    with secured(broker, world) as honest, ExitStack() as undo:
        slow = [undo.enter_context(one) for one in open_many(address(broker), (b"",), 200)]
        deadline_s = time.monotonic() + PATIENCE_S
        for byte in hello:
            for one in slow:
                with suppress(OSError):
                    one.send(bytes((byte,)))
            answered_in_s(honest)
            if refusals(broker, "tls-handshake-overdue") >= before + len(slow):
                break
            assert time.monotonic() < deadline_s
        until(lambda: refusals(broker, "tls-handshake-overdue") >= before + len(slow), "slow handshakes end")
        assert connections(broker) == 1


def test_renegotiation_is_refused(broker: BrokerProcess, world: TlsWorld) -> None:
    with secured(broker, world, ssl.TLSVersion.TLSv1_2) as session, secured(broker, world) as honest:
        answered_in_s(session)
        with pytest.raises(ssl.SSLError, match="NO_RENEGOTIATION"):
            renegotiate(session)
        answered_in_s(honest)
    until(lambda: connections(broker) == 0, "the connection ends")
    assert "Traceback" not in broker.log()


@pytest.mark.parametrize("certificates", [40, 4_000])
def test_a_chain_without_end_is_refused(
    broker: BrokerProcess, world: TlsWorld, tmp_path: Path, certificates: int
) -> None:
    """OpenSSL reads 100 kB of certificates at most."""
    chain, key = long_chain(tmp_path, certificates, 1_024)
    context = ssl.create_default_context(cafile=str(world.trusted))
    context.load_cert_chain(chain, key)
    before = broker.resident_bytes()
    with secured(broker, world) as honest:
        for _ in range(20):
            with (
                socket.create_connection(address(broker), timeout=PATIENCE_S) as plain,
                suppress(ssl.SSLError, ConnectionError),
                context.wrap_socket(plain, server_hostname="localhost") as session,
            ):
                session.sendall(ASK)
                assert session.recv(1) == b"", "the client is not served"
            answered_in_s(honest)
    assert broker.resident_bytes() - before < BYTES_BESIDE
    assert "Traceback" not in broker.log()
