"""Clients that close before they are accepted consume no rate, so that a patient client does not wait for them."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from ipaddress import ip_network

import pytest

from broker_runtime.network.connection.connection_notices import ABANDONED, ConnectionNotice, NoticeKind
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.listening import is_abandoned
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import QuotaSettings, Strategy
from tests.support.processes.clients.socket_bench import BENCHES, PATIENCE_S, PING, Bench, bench_on
from tests.support.requests.proxy_headers import header, local_header

LISTENER = "EXTERNAL"
SHORT = QuotaSettings(quota_window_num=2, listener_max_connection_creation_rate={LISTENER: 10})
KAFKAS_WAY = replace(SHORT, count_abandoned=True)
BALANCER = (ip_network("127.0.0.0/8"),)
ALICE = ("203.0.113.7", 50_000)
IMPATIENT = 8
GIVES_UP_AFTER_S = 0.03
LONGEST_WAIT_S = 2.0


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def is_blocked(bench: Bench) -> bool:
    return bench.server.quotas.listeners[LISTENER].waiting is not None


def abandoned(bench: Bench) -> float:
    return bench.metric("acceptor_abandoned_total", listener=LISTENER)


@contextmanager
def storm(bench: Bench, hello: bytes = b"") -> Iterator[None]:
    """Eight addresses connect, wait for 30 ms, close and connect again, as long as the block runs."""
    over = threading.Event()
    address = bench.server.address(LISTENER)

    def knock(source: str) -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection(address, 0.2, (source, 0)) as client:
                client.sendall(hello)
                over.wait(GIVES_UP_AFTER_S)

    with ThreadPoolExecutor(IMPATIENT) as clients:
        try:
            for number in range(IMPATIENT):
                clients.submit(knock, f"127.0.2.{number + 1}")
            yield
        finally:
            over.set()


def served_within_s(bench: Bench, hello: bytes = b"") -> float:
    """Return how long a client waits for the answer to its first request."""

    def be_patient() -> bytes:
        with socket.create_connection(bench.server.address(LISTENER), PATIENCE_S, ("127.0.1.1", 0)) as client:
            client.sendall(hello + PING)
            return client.recv(len(PING))

    start_s = bench.loop.time()
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(be_patient)
        bench.run_until(answer.done)
        assert answer.result() == PING
    return bench.loop.time() - start_s


@pytest.mark.parametrize("strategy", Strategy)
def test_a_patient_client_does_not_wait_for_those_that_have_given_up(bench: Bench, strategy: Strategy) -> None:
    bench.serve(replace(SHORT, strategy=strategy))
    with storm(bench):
        bench.run_until(lambda: abandoned(bench) >= IMPATIENT)
        waits_s = [served_within_s(bench) for _ in range(2)]
    assert max(waits_s) < LONGEST_WAIT_S, waits_s
    assert bench.metric("connection_accept_rate", listener=LISTENER) < 2 * 10 + 2


def test_a_patient_client_behind_a_balancer_does_not_wait_for_them_either(bench: Bench) -> None:
    bench.serve(replace(SHORT, strategy=Strategy.TOKEN_BUCKET, trusted_proxies={LISTENER: BALANCER}))
    with storm(bench, header(("203.0.113.9", 50_000))):
        bench.run_until(lambda: abandoned(bench) >= IMPATIENT)
        assert served_within_s(bench, header(ALICE)) < LONGEST_WAIT_S
    assert bench.metric("sluicegate_proxy_headers_total", listener=LISTENER, outcome="abandoned") >= IMPATIENT


@pytest.fixture
def accepted() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's and the server's end of one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        served, _ = listening.accept()
        with client, served:
            served.setblocking(False)
            yield client, served


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()


WHOLE = header(ALICE)


@pytest.mark.parametrize(
    ("sent", "end", "proxied", "expected"),
    [
        (b"", None, False, False),
        (b"", socket.socket.close, False, True),
        (b"", lambda client: client.shutdown(socket.SHUT_WR), False, True),
        (b"", reset, False, True),
        (b"x", None, False, False),
        (b"x", socket.socket.close, False, False),
        (b"x", reset, False, False),
        (b"", socket.socket.close, True, True),
        (WHOLE, None, True, False),
        (WHOLE, socket.socket.close, True, True),
        (local_header(), socket.socket.close, True, True),
        (WHOLE + b"x", socket.socket.close, True, False),
        (WHOLE[:-1], socket.socket.close, True, False),
        (b"x" * len(WHOLE), socket.socket.close, True, False),
        (WHOLE, socket.socket.close, False, False),
    ],
)
def test_a_connection_is_abandoned_when_its_client_has_closed_it_and_no_byte_waits(
    accepted: tuple[socket.socket, socket.socket], sent: bytes, end: object, proxied: bool, expected: bool
) -> None:
    client, served = accepted
    client.sendall(sent)
    if callable(end):
        end(client)
    header_bytes_max = 4096 if proxied else None
    assert is_abandoned(served, header_bytes_max) is expected
    if sent and not expected and not proxied:
        assert served.recv(100) == sent, "nothing was taken from the connection"


def test_abandoned_connections_are_closed_and_counted_without_using_rate_or_slots(bench: Bench) -> None:
    """The limits are those of the address itself, and of a range that contains it."""
    notices: list[ConnectionNotice] = []
    bench.serve(replace(SHORT, max_connections_per_ip=1))
    bench.server.update_ip_rate("127.0.0.1", 1)
    bench.server.connection_groups.set_limits("range", AddressGroupLimits(rate=1, max_connections=1, shared=True))
    bench.server.connection_groups.set_member("range", "127.0.0.0/8", 1.0)
    bench.server.connection_notices.observe(notices.append)
    for source in ("127.0.0.1", "127.0.0.9"):
        for _ in range(20):
            bench.connect(source=source).close()
        assert bench.ask(bench.connect(source=source))
        assert bench.server.quotas.addresses.counts.count(source) == 1
    assert abandoned(bench) == 40
    told = [*[(NoticeKind.REFUSED, ABANDONED)] * 20, (NoticeKind.ACCEPTED, None)]
    assert [(notice.kind, notice.reason) for notice in notices] == [*told, *told]
    group = bench.server.quotas.addresses.groups.by_name["range"]
    assert (group.connections, group.held) == (1, {})
    assert bench.metric("connection_creation_total", listener=LISTENER) == 2
    assert bench.metric("waits_total", listener=LISTENER) == 0
    assert bench.server.refusals.totals == {}


def test_as_in_kafka_they_take_the_rate_when_the_key_says_so(bench: Bench) -> None:
    bench.serve(KAFKAS_WAY)
    for _ in range(11):
        bench.connect().close()
    bench.run_until(lambda: is_blocked(bench))
    assert bench.metric("connection_creation_total", listener=LISTENER) == 10
    assert abandoned(bench) == 0


def test_a_client_that_has_sent_a_request_and_closed_its_side_is_answered(bench: Bench) -> None:
    bench.serve(SHORT)
    client = bench.connect()
    client.sendall(PING)
    client.shutdown(socket.SHUT_WR)
    assert bench.receive(client) == PING
    assert abandoned(bench) == 0


def test_the_next_client_takes_over_the_wait_of_one_that_hangs_up(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=1))
    first = bench.connect()
    assert bench.ask(first)
    waiting, next_one = bench.connect(), bench.connect()
    bench.run_until(lambda: is_blocked(bench) and bench.metric("connections_waiting", listener=LISTENER) == 2)
    waiting.close()
    first.close()
    assert bench.ask(next_one)
    assert abandoned(bench) == 1
    assert bench.metric("waits_total", listener=LISTENER) == 1
    assert bench.metric("connection_creation_total", listener=LISTENER) == 2


def test_a_wait_ends_with_its_client_when_nobody_is_behind(bench: Bench) -> None:
    bench.serve(replace(SHORT, listener_max_connection_creation_rate={LISTENER: 1}))
    kept = [bench.connect(), bench.connect()]
    assert all(bench.ask(client) for client in kept)
    waiting = bench.connect()
    bench.run_until(lambda: is_blocked(bench))
    waiting.close()
    bench.run_until(lambda: not is_blocked(bench))
    assert abandoned(bench) == 1
    assert bench.metric("connection_creation_total", listener=LISTENER) == 2
    assert bench.metric("connection_accept_rate", listener=LISTENER) <= 2


def test_clients_that_wait_in_the_process_have_the_places_of_the_backlog(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=1), limits=NetworkLimits(listen_backlog=5))
    assert bench.ask(bench.connect())
    waiting = [bench.connect() for _ in range(6)]
    bench.run_until(lambda: bench.metric("connections_waiting", listener=LISTENER) == 6)
    late = [socket.socket() for _ in range(5)]
    bench.clients += late
    for client in late:
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.connect(bench.server.address(LISTENER))
    bench.run_until(lambda: bench.metric("connections_waiting", listener=LISTENER) == 6)
    waiting[0].close()
    waiting[3].close()
    bench.run_until(lambda: abandoned(bench) == 2)
    assert bench.metric("connections_waiting", listener=LISTENER) <= 6


def test_a_paused_listener_hangs_up_on_those_that_wait(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=1))
    assert bench.ask(bench.connect())
    waiting = [bench.connect() for _ in range(4)]
    bench.run_until(lambda: bench.metric("connections_waiting", listener=LISTENER) == 4)
    bench.server.pause({LISTENER}, "fenced")
    assert [bench.receive(client) for client in waiting] == [b""] * 4
    bench.server.resume({LISTENER})
    assert bench.ask(bench.connect())


def test_a_lowered_limit_hangs_up_on_those_that_have_waited_longest(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=1), limits=NetworkLimits(listen_backlog=20))
    assert bench.ask(bench.connect())
    waiting = [bench.connect() for _ in range(10)]
    bench.run_until(lambda: bench.metric("connections_waiting", listener=LISTENER) == 10)
    assert all(bench.is_open(client) for client in waiting)
    bench.server.remove_listener(LISTENER)
    assert [bench.receive(client) for client in waiting] == [b""] * 10


def test_a_listener_that_is_paused_and_removed_at_once_leaves_nothing_to_do(bench: Bench) -> None:
    """Regression: the acceptor used the quotas of the removed listener in its next time slice, and raised."""
    bench.serve(SHORT)
    failed: list[object] = []
    bench.loop.set_exception_handler(lambda _, context: failed.append(context))
    clients = [bench.connect() for _ in range(40)]
    (acceptor,) = bench.server.acceptors.values()
    bench.run_until(lambda: acceptor.metrics().waiting_count > 1)
    bench.server.pause([LISTENER], "the broker is fenced")
    bench.server.remove_listener(LISTENER)
    bench.run_until(lambda: LISTENER not in bench.server.quotas.listeners)
    slices = iter(range(5))
    bench.run_until(lambda: next(slices, None) is None)
    assert failed == []
    for client in clients:
        client.close()
