"""Adaptive rates over real loopback sockets: a storm of clients whose first request is expensive."""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.handler import ServedConnection
from connection_limits.adaptive_rates import Moved
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


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def decided(bench: Bench, number: int) -> None:
    """Run the loop while the adaptive rates are decided so many times."""
    limits = bench.server._adaptive
    assert limits is not None
    decide, times = limits.rates.decide, 0

    def counted(newcomers_ms: float, now_ms: int) -> list[Moved]:
        nonlocal times
        times += 1
        return decide(newcomers_ms, now_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits.rates, "decide", counted)
        bench.run_until(lambda: times >= number)


def test_without_a_free_descriptor_a_rate_is_decided_without_probes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[object] = []
    bench.loop.set_exception_handler(lambda _, context: errors.append(context))

    def no_descriptor() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("broker_runtime.network.adaptive_limits.socket.socketpair", no_descriptor)
    bench.serve(ADAPTIVE)
    decided(bench, 2)
    assert not errors
    assert bench.server.refusals.totals["adaptive-rate-probe"] >= 1


def test_a_removed_listener_leaves_neither_timer_nor_socket(bench: Bench) -> None:
    bench.serve(replace(ADAPTIVE, listener_objectives={"OTHER": OBJECTIVE}), "EXTERNAL", "OTHER")
    limits = bench.server._adaptive
    assert limits is not None
    bench.run_until(lambda: limits._probe is not None)
    open_before = descriptors()
    bench.server.remove_listener("OTHER")
    bench.run_until(lambda: limits._timer is None)
    # The listening socket, and both ends of the probe.
    assert descriptors() <= open_before - 3
    bench.server.add_listener("OTHER", "127.0.0.1", 0)
    assert limits._timer is not None


def test_settings_that_change_all_the_time_leak_no_descriptor(bench: Bench) -> None:
    bench.serve(ADAPTIVE)
    limits = bench.server._adaptive
    assert limits is not None
    bench.run_until(lambda: limits._probe is not None)
    bench.server.update_limits(replace(ADAPTIVE, listener_objectives={}))
    before = descriptors()
    for number in range(30):
        objectives = {} if number % 2 else {"EXTERNAL": replace(OBJECTIVE, p99_ms=10 + number)}
        bench.server.update_limits(replace(ADAPTIVE, listener_objectives=objectives))
        bench.loop.run_until_complete(asyncio.sleep(0.01))
    assert (descriptors(), limits._timer, limits._probe) == (before, None, None)


def test_settings_that_arrive_during_a_shutdown_start_nothing(bench: Bench) -> None:
    bench.serve(ADAPTIVE)
    limits = bench.server._adaptive
    assert limits is not None
    bench.connect()
    bench.run_until(lambda: bench.connection_count == 1)
    ending = bench.loop.create_task(bench.server.shutdown(drain_s=0.2))
    bench.loop.run_until_complete(asyncio.sleep(0))
    bench.server.update_limits(replace(ADAPTIVE, listener_objectives={"EXTERNAL": replace(OBJECTIVE, p99_ms=30)}))
    bench.loop.run_until_complete(ending)
    assert (limits._timer, limits._probe) == (None, None)


def test_the_first_request_of_a_connection_is_a_newcomers_however_long_it_waited(bench: Bench) -> None:
    # Otherwise an overload that lasts for more than a second would count as the load of established clients.
    bench.serve(limits=NetworkLimits(established_after_s=0.01), handler=expensive)
    client = bench.connect()
    bench.run_until(lambda: bench.connection_count == 1)
    before_s, waited = bench.server._shared.newcomers_s, time.monotonic() + 0.02
    bench.run_until(lambda: time.monotonic() > waited)
    assert bench.ask(client)
    after_s = bench.server._shared.newcomers_s
    assert after_s - before_s >= COST_S
    waited = time.monotonic() + 0.02
    bench.run_until(lambda: time.monotonic() > waited)
    assert bench.ask(client)
    assert bench.server._shared.newcomers_s == after_s
