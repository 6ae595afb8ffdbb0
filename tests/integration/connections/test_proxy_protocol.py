"""A listener behind a load balancer, with real sockets: limits apply to the client and not to the balancer."""

import socket
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
from broker_runtime.network.settings import NetworkLimits
from connection_limits.settings import QuotaSettings
from tests.support.processes.clients.socket_bench import BENCHES, PATIENCE_S, PING, Bench, bench_on
from tests.support.requests.proxy_headers import header, local_header, tlv

BALANCER = (ip_network("127.0.0.1"),)
BEHIND = QuotaSettings(trusted_proxies={"EXTERNAL": BALANCER})
ALICE, BOB = ("203.0.113.7", 50_000), ("2001:db8::7", 50_001)


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def outcome(bench: Bench, name: str) -> float:
    return bench.metric("sluicegate_proxy_headers_total", listener="EXTERNAL", outcome=name)


def ask_as(bench: Bench, client: tuple[str, int], more: bytes = b"") -> socket.socket:
    connection = bench.connect()
    connection.sendall(header(client, more=more))
    assert bench.ask(connection)
    return connection


def test_a_client_is_known_by_the_address_in_the_header(bench: Bench) -> None:
    notices: list[ConnectionNotice] = []
    server = bench.serve(BEHIND)
    server.connection_notices.observe(notices.append)
    ask_as(bench, ALICE)
    ask_as(bench, BOB, tlv(0x01, b"kafka") + tlv(0xEA, bytes(1_000)))
    assert [(n.kind, n.client_address, n.client_port) for n in notices] == [
        (NoticeKind.ACCEPTED, *ALICE),
        (NoticeKind.ACCEPTED, *BOB),
    ]
    assert [server.quotas.addresses.counts.count(ip) for ip in (ALICE[0], BOB[0], "127.0.0.1")] == [1, 1, 0]
    assert outcome(bench, "client") == 2


def test_a_header_may_come_in_pieces_and_with_the_first_request(bench: Bench) -> None:
    bench.serve(BEHIND)
    slow, quick = bench.connect(), bench.connect()
    whole = header(ALICE)
    for piece in (whole[:1], whole[1:13], whole[13:20]):
        slow.sendall(piece)
        bench.run_until(lambda: bench.metric("sluicegate_proxy_headers_awaited", listener="EXTERNAL") == 2)
    quick.sendall(whole + PING)
    assert bench.receive_exactly(quick, len(PING)) == PING
    slow.sendall(whole[20:] + PING + PING)
    assert bench.receive_exactly(slow, 2 * len(PING)) == PING + PING


def test_limits_of_an_address_meet_the_client_and_not_the_balancer(bench: Bench) -> None:
    server = bench.serve(QuotaSettings(trusted_proxies={"EXTERNAL": BALANCER}, max_connections_per_ip=2))
    kept = [ask_as(bench, ALICE), ask_as(bench, ALICE), ask_as(bench, BOB)]
    third = bench.connect()
    third.sendall(header(ALICE))
    assert bench.receive(third) == b""
    assert bench.metric("connections_rejected_total", listener="EXTERNAL", reason="too_many") == 1
    assert server.quotas.total == 3
    kept[0].close()
    bench.run_until(lambda: server.quotas.total == 2)
    ask_as(bench, ALICE)


def test_a_rate_of_an_address_meets_the_client_and_costs_the_listener_nothing(bench: Bench) -> None:
    server = bench.serve(QuotaSettings(trusted_proxies={"EXTERNAL": BALANCER}, quota_window_num=2))
    server.update_ip_rate(ALICE[0], 1)
    ask_as(bench, ALICE)
    storm = [bench.connect() for _ in range(5)]
    for connection in storm:
        connection.sendall(header(ALICE))
    bench.run_until(lambda: bench.metric("connections_rejected_total", listener="EXTERNAL", reason="delayed") == 5)
    assert server.quotas.total == 1
    assert bench.metric("connection_creation_total", listener="EXTERNAL") == 1
    ask_as(bench, BOB)


def test_a_proxy_header_from_an_untrusted_address_is_rejected(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    server = bench.serve(QuotaSettings(trusted_proxies={"EXTERNAL": (ip_network("10.0.0.0/8"),)}))
    for _ in range(3):
        spoofed = bench.connect()
        spoofed.sendall(header(ALICE))
        assert bench.receive(spoofed) == b""
    assert outcome(bench, "untrusted") == 3
    assert server.quotas.addresses.counts.count(ALICE[0]) == server.quotas.total == 0
    assert ["proxy.protocol.trusted" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"PROXY TCP4 203.0.113.7 127.0.0.1 5 6\r\n", "version-1"),
        (PING, "no-header"),
        (header(family=0x12), "malformed"),
        (header(more=bytes(5_000)), "too-long"),
    ],
)
def test_an_invalid_proxy_header_is_rejected_and_counted(bench: Bench, sent: bytes, why: str) -> None:
    server = bench.serve(BEHIND)
    connection = bench.connect()
    connection.sendall(sent)
    assert bench.receive(connection) == b""
    assert outcome(bench, why) == 1
    assert bench.metric("refused_total", kind=f"proxy-{why}") == 1
    assert server.quotas.total == 0


def test_health_checks_are_no_errors(bench: Bench) -> None:
    server = bench.serve(BEHIND)
    silent, local = bench.connect(), bench.connect()
    silent.close()
    local.sendall(local_header())
    bench.run_until(lambda: outcome(bench, "probe") == outcome(bench, "local") == 1)
    assert server.quotas.addresses.counts.count("127.0.0.1") == 1, "it is the balancer's own"
    local.close()
    bench.run_until(lambda: server.quotas.total == 0)
    assert server.refusals.totals == {}


def test_a_connection_that_ends_within_its_header_is_an_error(bench: Bench) -> None:
    server = bench.serve(BEHIND)
    connection = bench.connect()
    connection.sendall(header()[:20])
    connection.shutdown(socket.SHUT_WR)
    bench.run_until(lambda: outcome(bench, "cut-off") == 1)
    assert server.quotas.total == 0


def test_a_connection_without_a_proxy_header_releases_its_slot_after_the_timeout(bench: Bench) -> None:
    quotas = QuotaSettings(trusted_proxies={"EXTERNAL": BALANCER}, listener_max_connections={"EXTERNAL": 2})
    server = bench.serve(quotas, limits=NetworkLimits(proxy_header_timeout_s=0.2))
    silent = [bench.connect(), bench.connect()]
    patient = bench.connect()
    patient.sendall(header(ALICE))
    assert [bench.receive(connection) for connection in silent] == [b"", b""]
    assert outcome(bench, "overdue") == 2
    assert bench.ask(patient), "it has waited for a slot, and its header for it"
    assert server.quotas.total == 1


def test_trust_begins_and_ends_while_connections_go_on(bench: Bench) -> None:
    server = bench.serve()
    before = bench.connect()
    assert bench.ask(before)
    server.update_limits(BEHIND)
    through = ask_as(bench, ALICE)
    waiting = bench.connect()
    bench.run_until(lambda: bench.metric("sluicegate_proxy_headers_awaited", listener="EXTERNAL") == 1)
    server.update_limits(QuotaSettings())
    waiting.sendall(header(BOB))
    for connection in (before, through, waiting, bench.connect()):
        assert bench.ask(connection)
    assert server.quotas.addresses.counts.count(BOB[0]) == 1


def test_hundreds_of_waiting_connections_of_a_closed_listener_are_closed_in_several_iterations(
    bench: Bench,
) -> None:
    server = bench.serve(BEHIND)
    address = server.address("EXTERNAL")
    waiting = [bench.connect() for _ in range(250)]
    bench.run_until(lambda: bench.metric("sluicegate_proxy_headers_awaited", listener="EXTERNAL") == 250)
    waiting[-1].sendall(header(ALICE) + PING)
    server.remove_listener("EXTERNAL")
    assert server.quotas.total == 150, "a hundred in an iteration"
    server.add_listener("EXTERNAL", *address)
    server.start("EXTERNAL")
    ask_as(bench, ALICE)
    assert [bench.receive(connection) for connection in waiting] == [b""] * 250
    assert (server.quotas.total, server.quotas.addresses.counts.count(ALICE[0])) == (1, 1)


def test_a_listener_that_is_closed_or_paused_waits_for_no_header(bench: Bench) -> None:
    server = bench.serve(BEHIND)
    first = bench.connect()
    bench.run_until(lambda: bench.metric("sluicegate_proxy_headers_awaited", listener="EXTERNAL") == 1)
    server.pause(["EXTERNAL"], "fenced")
    assert bench.receive(first) == b""
    server.resume(["EXTERNAL"])
    second = bench.connect()
    bench.run_until(lambda: bench.metric("sluicegate_proxy_headers_awaited", listener="EXTERNAL") == 1)
    server.remove_listener("EXTERNAL")
    second.settimeout(PATIENCE_S)
    assert bench.receive(second) == b""
    assert (server.quotas.total, server.listeners) == (0, ())
