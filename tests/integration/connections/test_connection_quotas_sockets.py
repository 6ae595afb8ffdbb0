"""Connection quotas over real loopback sockets, on both event loops: tests/simulation runs the same in virtual time."""

import asyncio
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.listening import ListenerBindError
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import IpAction, QuotaSettings, Strategy
from tests.support.processes.clients.socket_bench import BENCHES, PING, Bench, bench_on

LATE_S = 3.0
"""Events due within a window of a second have happened by then."""
SHORT = QuotaSettings(quota_window_num=2, inter_broker_listener="REPLICATION")


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def test_a_listener_over_its_rate_makes_the_next_client_wait_and_then_serves_it(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connection_creation_rate=2))
    clients = [bench.connect() for _ in range(3)]
    assert all(bench.ask(client) for client in clients[:2])
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    start_s = bench.loop.time()
    assert bench.ask(clients[2])
    assert bench.loop.time() - start_s < LATE_S
    assert bench.metric("blocked_seconds_total", listener="EXTERNAL") > 0.1
    assert 0 < bench.metric("blocked_percent", listener="EXTERNAL") <= 1
    assert bench.metric("connection_accept_throttle_time_ms", listener="EXTERNAL") > 0


def test_a_listener_that_waits_leaves_the_others_alone(bench: Bench) -> None:
    bench.serve(replace(SHORT, listener_max_connection_creation_rate={"EXTERNAL": 1}), "EXTERNAL", "ADMIN")
    for _ in range(3):
        bench.connect("EXTERNAL")
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    assert all(bench.ask(bench.connect("ADMIN")) for _ in range(20))
    assert bench.server.quotas.listeners["EXTERNAL"].waiting is not None
    assert bench.metric("blocked_seconds_total", listener="ADMIN") == 0


def test_a_lifted_rate_holds_for_the_next_client_without_a_restart(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connection_creation_rate=2))
    assert all(bench.ask(bench.connect()) for _ in range(3))
    bench.server.update_limits(SHORT)
    start_s = bench.loop.time()
    assert all(bench.ask(bench.connect()) for _ in range(50))
    assert bench.loop.time() - start_s < 10, "at the old rate it were 25 s"
    waits = bench.metric("waits_total", listener="EXTERNAL")
    bench.server.update_limits(replace(SHORT, max_connection_creation_rate=20))
    assert bench.ask(bench.connect())
    assert bench.metric("waits_total", listener="EXTERNAL") == waits + 1


def test_an_address_over_its_connection_count_is_closed_at_once(bench: Bench) -> None:
    """Kafka's testMaxConnectionsPerIp, testDynamicConnectionQuota."""
    bench.serve(replace(SHORT, max_connections_per_ip=5, max_connections_per_ip_overrides={"127.0.1.9": 7}))
    clients = [bench.connect() for _ in range(5)]
    assert all(bench.ask(client) for client in clients)
    assert not bench.ask(bench.connect())
    assert bench.ask(bench.connect(source="127.0.1.2"))
    assert all(bench.ask(bench.connect(source="127.0.1.9")) for _ in range(7))
    assert not bench.ask(bench.connect(source="127.0.1.9"))
    clients[0].close()
    bench.run_until(lambda: bench.server.quotas.addresses.counts.count("127.0.0.1") == 4)
    assert bench.ask(bench.connect())
    assert bench.metric("connections_rejected_total", listener="EXTERNAL", reason="too_many") == 2


def test_without_a_free_slot_a_client_waits_until_another_leaves(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=2))
    first, second = bench.connect(), bench.connect()
    assert bench.ask(first)
    assert bench.ask(second)
    third = bench.connect()
    third.sendall(PING)
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    assert bench.connection_count == 2
    first.close()
    assert bench.receive(third) == PING


def test_a_raised_slot_limit_wakes_the_waiting_client(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=1))
    assert bench.ask(bench.connect())
    third = bench.connect()
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    bench.server.update_limits(replace(SHORT, max_connections=2))
    assert bench.ask(third)


def test_inter_broker_connections_above_the_limit_push_out_the_least_recently_used(bench: Bench) -> None:
    """Kafka's testDynamicListenerConnectionQuota."""
    quotas = replace(SHORT, max_connections=4, listener_max_connections={"REPLICATION": 10})
    bench.serve(quotas, "EXTERNAL", "REPLICATION")
    # The protected listener's connection is the longest unused of all, and must stay.
    between_brokers = [bench.connect("REPLICATION")]
    assert bench.ask(between_brokers[0])
    old, older, young = (bench.connect("EXTERNAL") for _ in range(3))
    for client in (old, older, young, old):
        assert bench.ask(client)
    between_brokers += [bench.connect("REPLICATION") for _ in range(2)]
    assert all(bench.ask(client) for client in between_brokers[1:])
    bench.run_until(lambda: bench.server.quotas.total == 4)
    assert not bench.is_open(older)
    assert not bench.is_open(young)
    assert bench.ask(old)
    assert all(bench.ask(client) for client in between_brokers)
    assert bench.metric("connections_evicted_total") == 2


def test_a_lowered_limit_closes_the_least_recently_used_and_never_more_than_needed(bench: Bench) -> None:
    bench.serve(SHORT)
    clients = [bench.connect() for _ in range(20)]
    assert all(bench.ask(client) for client in clients)
    bench.server.update_limits(replace(SHORT, max_connections=5))
    bench.run_until(lambda: bench.connection_count == 5)
    assert [bench.is_open(client) for client in clients] == [False] * 15 + [True] * 5
    assert all(bench.ask(client) for client in clients[15:])
    assert bench.metric("connections_evicted_total") == 15


def test_an_address_over_its_rate_is_held_unread_and_then_closed(bench: Bench) -> None:
    """Kafka's testConnectionRatePerIp."""
    bench.serve(SHORT)
    bench.server.update_ip_rate("127.0.1.7", 2)
    assert all(bench.ask(bench.connect(source="127.0.1.7")) for _ in range(2))
    refused = bench.connect(source="127.0.1.7")
    bench.run_until(lambda: bench.metric("connections_delayed", listener="EXTERNAL") == 1)
    assert bench.is_open(refused)
    assert bench.ask(bench.connect(source="127.0.1.8"))
    assert bench.server.quotas.listeners["EXTERNAL"].count == 3
    start_s = bench.loop.time()
    assert bench.receive(refused) == b""
    assert bench.loop.time() - start_s < LATE_S
    assert bench.metric("connections_delayed", listener="EXTERNAL") == 0
    assert bench.metric("connections_rejected_total", listener="EXTERNAL", reason="delayed") == 1
    assert bench.metric("ip_connection_accept_throttle_time_ms", listener="EXTERNAL") > 0
    assert bench.metric("ip_connection_accept_rate", ip="127.0.1.7") == pytest.approx(2, abs=1.5)


def test_a_stream_of_refusals_is_closed_earliest_first(bench: Bench) -> None:
    """Kafka checks only the latest deadline, so that descriptors pile up."""
    bench.serve(SHORT)
    bench.server.update_ip_rate(None, 1)
    order: list[int] = []
    clients: list[socket.socket] = []
    end_s = bench.loop.time() + 1.8
    while bench.loop.time() < end_s:
        clients.append(bench.connect(source="127.0.1.7"))
        bench.run_until(lambda: True)
        order += [i for i, client in enumerate(clients) if i not in order and not bench.is_open(client)]
    # Old connections are closed while new ones keep arriving.
    assert 1 in order
    assert bench.metric("connections_delayed", listener="EXTERNAL") < len(clients)


def test_delayed_closes_have_a_bound(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_delayed_closes=3))
    bench.server.update_ip_rate(None, 0)
    clients = [bench.connect() for _ in range(8)]
    bench.run_until(lambda: sum(not bench.is_open(client) for client in clients) == 5)
    assert bench.metric("connections_delayed", listener="EXTERNAL") == 3


def test_drop_closes_at_once(bench: Bench) -> None:
    bench.serve(replace(SHORT, ip_action=IpAction.DROP, max_connection_creation_rate_per_ip=2))
    assert all(bench.ask(bench.connect()) for _ in range(2))
    start_s = bench.loop.time()
    assert bench.receive(bench.connect()) == b""
    assert bench.loop.time() - start_s < LATE_S
    assert bench.metric("connections_rejected_total", listener="EXTERNAL", reason="dropped") == 1
    assert bench.metric("connections_delayed", listener="EXTERNAL") == 0


def test_an_ip_storm_does_not_eat_the_listeners_budget(bench: Bench) -> None:
    quotas = replace(SHORT, ip_action=IpAction.DROP, listener_max_connection_creation_rate={"EXTERNAL": 30})
    bench.serve(quotas, limits=NetworkLimits(listen_backlog=200))
    bench.server.update_ip_rate("127.0.1.7", 5)
    for _ in range(100):
        bench.connect(source="127.0.1.7")
    assert all(bench.ask(bench.connect(source="127.0.1.8")) for _ in range(20))
    assert bench.metric("waits_total", listener="EXTERNAL") == 0
    assert bench.metric("connection_creation_total", listener="EXTERNAL") <= 5 + 20 + 5


def test_the_token_bucket_admits_one_seconds_worth_and_then_evenly(bench: Bench) -> None:
    bench.serve(QuotaSettings(strategy=Strategy.TOKEN_BUCKET, listener_max_connection_creation_rate={"EXTERNAL": 20}))
    clients = [bench.connect() for _ in range(30)]
    start_s = bench.loop.time()
    assert all(bench.ask(client) for client in clients)
    assert 0.4 < bench.loop.time() - start_s < 2


def test_waiting_and_delayed_sockets_are_closed_on_shutdown(bench: Bench) -> None:
    """Kafka's testThrottledSocketsClosedOnShutdown."""
    bench.serve(replace(SHORT, max_connections=1))
    bench.server.update_ip_rate("127.0.1.7", 0)
    delayed = bench.connect(source="127.0.1.7")
    served = bench.connect()
    assert bench.ask(served)
    held = bench.connect()
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    assert bench.is_open(delayed)
    bench.loop.run_until_complete(bench.server.shutdown(drain_s=1))
    for client in (delayed, served, held):
        assert bench.receive(client) == b""
    assert bench.server.quotas.total == 0


def test_pending_connects_wait_in_the_backlog_before_the_listener_starts(bench: Bench) -> None:
    """Kafka's testListenBacklogSize."""
    bench.serve(limits=NetworkLimits(listen_backlog=128))
    bench.server.add_listener("LATE", "127.0.0.1", 0)
    clients = [bench.connect("LATE") for _ in range(128)]
    assert bench.connection_count == 0
    bench.server.start("LATE")
    assert all(bench.ask(client) for client in clients)


def knock(bench: Bench, count: int) -> list[socket.socket]:
    """Connect clients without waiting; the server's loop does not run in the meantime."""
    clients = []
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.connect(bench.server.address("EXTERNAL"))
        clients.append(client)
    bench.clients += clients
    return clients


def found_a_place(clients: list[socket.socket]) -> int:
    """Return the number of established connections.

    Over loopback a connection is established at once, or the client has to retry.
    """
    writable = select.select([], clients, [], 0)[1]
    return len(writable)


def test_all_simultaneous_connections_are_accepted_without_a_limit(bench: Bench) -> None:
    bench.serve()
    clients = knock(bench, 300)
    assert found_a_place(clients) == 300
    assert all(bench.ask(client) for client in clients)


def test_a_limit_leaves_places_for_a_second_and_taken_away_for_all(bench: Bench) -> None:
    """The kernel has one place more than was requested."""
    bench.serve(replace(SHORT, listener_max_connection_creation_rate={"EXTERNAL": 100}))
    first = knock(bench, 150)
    assert found_a_place(first) == 101
    bench.server.update_limits(SHORT)
    assert found_a_place(knock(bench, 150)) == 150
    bench.server.update_limits(replace(SHORT, max_connection_creation_rate=1))
    assert found_a_place(knock(bench, 10)) == 0, "more wait already than the listener has places for"


def test_a_limit_that_meets_a_storm_leaves_no_more_waiting_than_it_serves_within_a_second(bench: Bench) -> None:
    bench.serve(SHORT)
    assert found_a_place(knock(bench, 400)) == 400
    start_s = bench.loop.time()
    bench.server.update_limits(replace(SHORT, listener_max_connection_creation_rate={"EXTERNAL": 50}))
    bench.run_until(lambda: bench.metric("refused_total", kind="backlog") + bench.connection_count == 400)
    assert bench.loop.time() - start_s < 4, "a newcomer would wait for so long"
    assert bench.connection_count >= 51, "who still has a place is served"


def test_a_listener_without_a_free_slot_has_as_many_places_as_are_configured(bench: Bench) -> None:
    bench.serve(replace(SHORT, max_connections=1), limits=NetworkLimits(listen_backlog=5))
    first = bench.connect()
    assert bench.ask(first)
    bench.connect()
    bench.run_until(lambda: bench.server.quotas.listeners["EXTERNAL"].waiting is not None)
    waiting = knock(bench, 50)
    assert found_a_place(waiting) == 6
    bench.server.update_limits(SHORT)
    bench.run_until(lambda: bench.connection_count == 8)
    assert found_a_place(knock(bench, 100)) == 100


def test_a_removed_listener_closes_its_connections_only(bench: Bench) -> None:
    bench.serve(SHORT, "EXTERNAL", "ADMIN")
    external, admin = bench.connect("EXTERNAL"), bench.connect("ADMIN")
    assert bench.ask(external)
    assert bench.ask(admin)
    bench.server.remove_listener("ADMIN")
    assert bench.receive(admin) == b""
    assert bench.ask(external)
    assert bench.server.listeners == ("EXTERNAL",)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(bench: Bench) -> None:
    """Kafka's testIdleConnection."""
    bench.serve(limits=NetworkLimits(connections_max_idle_ms=1_200))
    idle, busy = bench.connect(), bench.connect()
    assert bench.ask(idle)

    def idle_has_gone() -> bool:
        assert bench.is_open(busy)
        busy.send(PING)
        return not bench.is_open(idle)

    bench.run_until(idle_has_gone)
    assert bench.metric("connections_idle_closed_total") == 1
    assert bench.connection_count == 1


def test_a_port_that_is_taken_is_named(bench: Bench) -> None:
    bench.serve()
    host, port = bench.server.address("EXTERNAL")
    with pytest.raises(ListenerBindError, match=rf"listener ADMIN: cannot listen on {host}:{port}: Address already"):
        bench.server.add_listener("ADMIN", host, port)
    with pytest.raises(ListenerBindError, match=r"listener ADMIN: cannot use no-such-host\.invalid:9092"):
        bench.server.add_listener("ADMIN", "no-such-host.invalid", 9092)
    assert bench.server.listeners == ("EXTERNAL",)


def test_running_out_of_descriptors_pauses_accepting_and_then_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(limits=NetworkLimits(accept_error_pause_s=0.05))
    first = bench.connect()
    assert bench.ask(first)
    client = socket.socket()
    client.setblocking(False)
    bench.clients.append(client)

    async def connect_without_a_descriptor_to_spare() -> bytes:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
        try:
            await bench.loop.sock_connect(client, bench.server.address("EXTERNAL"))
            while bench.metric("accept_errors_total", listener="EXTERNAL") < 3:
                assert not bench.server.quotas.listeners["EXTERNAL"].waiting
                await asyncio.sleep(0.002)
            await bench.loop.sock_sendall(first, PING)
            return await bench.loop.sock_recv(first, 100)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    start_s = bench.loop.time()
    assert bench.loop.run_until_complete(asyncio.wait_for(connect_without_a_descriptor_to_spare(), 5)) == PING
    assert bench.loop.time() - start_s > 0.09, "three failures are two pauses apart"
    assert bench.ask(client)
    assert sum("cannot accept" in record.message for record in caplog.records) == 1


def test_a_connection_group_limits_its_members_only(bench: Bench) -> None:
    bench.serve(replace(SHORT, ip_action=IpAction.DROP))
    groups = bench.server.connection_groups
    groups.set_limits("shop/a", AddressGroupLimits(max_connections=2, shared=True))
    groups.set_limits("shop/b", AddressGroupLimits(rate=1))
    groups.set_member("shop/a", "127.0.2.0/24", 1)
    groups.set_member("shop/b", "127.0.3.1", 1)
    assert bench.ask(bench.connect(source="127.0.2.1"))
    second = bench.connect(source="127.0.2.2")
    assert bench.ask(second)
    assert not bench.ask(bench.connect(source="127.0.2.3"))
    assert bench.ask(bench.connect(source="127.0.3.1"))
    assert not bench.ask(bench.connect(source="127.0.3.1"))
    assert all(bench.ask(bench.connect()) for _ in range(20))
    second.close()
    bench.run_until(lambda: bench.server.quotas.addresses.groups.by_name["shop/a"].connections == 1)
    groups.set_member("shop/b", "127.0.3.1", None)
    assert bench.ask(bench.connect(source="127.0.3.1"))
    third = bench.connect(source="127.0.2.3")
    assert bench.ask(third)
    groups.set_member("shop/a", "127.0.2.0/24", None)
    groups.set_member("shop/b", "127.0.2.3", 1)
    bench.run_until(lambda: bench.server.quotas.addresses.groups.by_name["shop/a"].connections == 0)
    assert bench.server.quotas.addresses.groups.by_name["shop/b"].connections == 1
