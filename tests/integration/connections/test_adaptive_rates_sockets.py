"""Adaptive rates over real loopback sockets: a storm of clients whose first request is expensive."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from broker_runtime.wire.handler import ServedConnection
from connection_limits.settings import Objective, QuotaSettings
from tests.support.processes.clients.socket_bench import BENCHES, PING, Bench, bench_on, echo

CLIENTS = 12
COST_S = 0.008
OBJECTIVE = Objective(p99_ms=20, min_rate=5)
ADAPTIVE = QuotaSettings(listener_objectives={"EXTERNAL": OBJECTIVE})
RATE = "sluicegate_adaptive_connection_rate"
TARGET = "listener EXTERNAL"


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def expensive(frame: memoryview, connection: ServedConnection) -> tuple[bytes, bytes]:
    until_s = time.perf_counter() + COST_S
    while time.perf_counter() < until_s:
        pass
    return echo(frame, connection)


async def connect_again_and_again(address: tuple[str, int]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as client, suppress(OSError):
            client.setblocking(False)
            await loop.sock_connect(client, address)
            await loop.sock_sendall(client, PING)
            await loop.sock_recv(client, len(PING))


def storm(bench: Bench) -> list[asyncio.Task[None]]:
    address = bench.server.address("EXTERNAL")
    return [bench.loop.create_task(connect_again_and_again(address)) for _ in range(CLIENTS)]


def end(bench: Bench, tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    bench.loop.run_until_complete(asyncio.wait(tasks))


def test_a_storm_lowers_the_rate_until_a_fixed_one_is_set(bench: Bench) -> None:
    bench.serve(ADAPTIVE, handler=expensive)
    tasks = storm(bench)
    bench.run_until(lambda: bench.metric(f"{RATE}_cuts_total", target=TARGET) >= 1)
    # Twelve clients that wait for each other are late by up to 96 ms.
    assert bench.metric(f"{RATE}_delay_p99_ms", target=TARGET) > OBJECTIVE.p99_ms
    assert bench.metric(RATE, target=TARGET) < 1 / COST_S
    bench.run_until(lambda: bench.metric("waits_total", listener="EXTERNAL") > 0)
    bench.server.update_limits(replace(ADAPTIVE, listener_objectives={}))
    assert not [sample for sample in bench.server.collect() if sample.name.startswith(RATE)]
    waits = bench.metric("waits_total", listener="EXTERNAL")
    created = bench.metric("connection_creation_total", listener="EXTERNAL")
    bench.run_until(lambda: bench.metric("connection_creation_total", listener="EXTERNAL") > created + 50)
    assert bench.metric("waits_total", listener="EXTERNAL") <= waits + 1
    end(bench, tasks)


def test_a_quiet_listener_is_not_probed(bench: Bench) -> None:
    bench.serve(ADAPTIVE)
    assert all(bench.ask(bench.connect()) for _ in range(OBJECTIVE.min_rate - 3))
    adaptive = bench.server.quotas.listeners["EXTERNAL"].rate_limit.adaptive
    assert adaptive is not None
    decided = adaptive.why
    bench.run_until(lambda: adaptive.why is not decided)
    assert (adaptive.why.value, len(adaptive.delays)) == ("quiet", 0)
