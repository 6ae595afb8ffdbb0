"""A paused listener, as of a fenced broker: no client is served, no client hangs, and no connection is counted."""

import socket
from collections.abc import Iterator

import pytest

from connection_limits.settings import QuotaSettings
from tests.support.processes.clients.socket_bench import BENCHES, Bench, bench_on

WHY = "fenced by this broker itself"


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def test_connections_of_a_paused_listener_are_closed_and_those_of_others_stay_open(bench: Bench) -> None:
    server = bench.serve(None, "EXTERNAL", "REPLICATION")
    client, broker = bench.connect("EXTERNAL"), bench.connect("REPLICATION")
    assert bench.ask(client)
    assert bench.ask(broker)
    server.pause(["EXTERNAL"], WHY)
    assert bench.receive(client) == b""
    assert bench.ask(broker)
    assert bench.ask(bench.connect("REPLICATION"))


def test_connections_to_a_paused_listener_are_closed_and_not_counted(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    server = bench.serve(QuotaSettings(max_connection_creation_rate=1, quota_window_num=2))
    server.pause(["EXTERNAL"], WHY)
    for _ in range(20):
        assert bench.receive(bench.connect()) == b""
    assert server.quotas.total == 0
    assert bench.metric("refused_total", kind="paused") == 20
    assert [WHY in record.getMessage() for record in caplog.records] == [True], "a storm is one line"
    server.resume(["EXTERNAL"])
    assert bench.ask(bench.connect()), "none of the twenty was counted"


def test_it_serves_again_on_the_same_port(bench: Bench) -> None:
    server = bench.serve()
    before = server.address("EXTERNAL")
    for _ in range(3):
        server.pause(["EXTERNAL"], WHY)
        assert bench.receive(bench.connect()) == b""
        server.resume(["EXTERNAL"])
        assert bench.ask(bench.connect())
    assert server.address("EXTERNAL") == before


def test_a_client_that_waits_for_its_turn_is_hung_up_on_too(bench: Bench) -> None:
    server = bench.serve(QuotaSettings(max_connections=1))
    first = bench.connect()
    assert bench.ask(first)
    second, third = bench.connect(), bench.connect()
    bench.run_until(lambda: server.quotas.total == 1)
    server.pause(["EXTERNAL"], WHY)
    assert [bench.receive(waiting) for waiting in (first, second, third)] == [b"", b"", b""]
    server.resume(["EXTERNAL"])
    assert bench.ask(bench.connect()), "the slot is free again"


def test_a_listener_paused_before_its_start_hangs_up_from_its_first_client_on(bench: Bench) -> None:
    server = bench.serve()
    host, port = server.add_listener("LATE", "127.0.0.1", 0)
    server.pause(["LATE"], WHY)
    server.start("LATE")
    with socket.create_connection((host, port), timeout=5) as client:
        client.setblocking(False)
        assert bench.receive(client) == b""
