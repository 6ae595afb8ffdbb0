"""Notices of connections, over real sockets: accepted, waiting (with the limit), refused, and ended."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
from broker_runtime.network.settings import NetworkLimits
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import IpAction, LimitReference, QuotaSettings
from tests.support.processes.clients.socket_bench import Bench, bench_on

ACCEPTED, LIMITED, REFUSED, CLOSED = NoticeKind
SHORT = QuotaSettings(quota_window_num=2)


@pytest.fixture(params=["uvloop+epoll", "asyncio+loop"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def observed(bench: Bench, quotas: QuotaSettings, limits: NetworkLimits | None = None) -> list[ConnectionNotice]:
    told: list[ConnectionNotice] = []
    bench.serve(quotas, limits=limits).connection_notices.observe(told.append)
    return told


def test_a_connection_is_reported_from_its_accept_to_its_end(bench: Bench) -> None:
    told = observed(bench, QuotaSettings())
    client = bench.connect()
    assert bench.ask(client)
    host, port = client.getsockname()
    client.close()
    bench.run_until(lambda: len(told) == 2)
    first, last = told
    assert first == ConnectionNotice(ACCEPTED, "EXTERNAL", host, port, 1)
    assert last[:5] == (CLOSED, "EXTERNAL", host, port, 1)
    assert last.reason == "closed by the client"
    assert last.open_s is not None
    assert 0 <= last.open_s < 30


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (replace(SHORT, max_connection_creation_rate=1), "max.connection.creation.rate"),
        (
            replace(SHORT, listener_max_connection_creation_rate={"EXTERNAL": 1}),
            "listener.name.external.max.connection.creation.rate",
        ),
        (replace(SHORT, max_connections=1), "max.connections"),
        (replace(SHORT, listener_max_connections={"EXTERNAL": 1}), "listener.name.external.max.connections"),
    ],
)
def test_the_notice_of_a_waiting_connection_names_the_limit(bench: Bench, limits: QuotaSettings, limit: str) -> None:
    told = observed(bench, limits)
    for _ in range(3):
        bench.connect()
    bench.run_until(lambda: any(notice.kind is LIMITED for notice in told))
    waiting = next(notice for notice in told if notice.kind is LIMITED)
    assert waiting.limit == limit
    assert waiting.held_by == LimitReference(limit, 1)
    assert waiting.listener_rate == (1 if limit.endswith("rate") else None)
    assert all(notice.held_by is None for notice in told if notice.kind is ACCEPTED)
    assert {notice.listener_rate for notice in told if notice.kind is ACCEPTED} == {waiting.listener_rate}
    assert waiting.connection_id is None
    if limit.endswith("rate"):
        assert waiting.delay_s is not None
        assert 0 < waiting.delay_s <= 1
    else:
        assert waiting.delay_s is None


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (replace(SHORT, max_connections_per_ip=1), "max.connections.per.ip"),
        (replace(SHORT, max_connection_creation_rate_per_ip=1), "max.connection.creation.rate.per.ip"),
        (
            replace(SHORT, max_connection_creation_rate_per_ip=1, ip_action=IpAction.DROP),
            "max.connection.creation.rate.per.ip",
        ),
    ],
)
def test_the_notice_of_a_rejected_connection_names_the_limit(bench: Bench, limits: QuotaSettings, limit: str) -> None:
    told = observed(bench, limits)
    for _ in range(4):
        bench.connect()
    bench.run_until(lambda: any(notice.kind is REFUSED for notice in told))
    refused = next(notice for notice in told if notice.kind is REFUSED)
    assert refused.limit == limit
    assert refused.held_by == LimitReference(limit, 1)
    assert (refused.delay_s is not None) == (limit.endswith("rate.per.ip") and limits.ip_action is IpAction.DELAY)


def test_why_the_broker_closes_one_is_told(bench: Bench) -> None:
    told = observed(bench, QuotaSettings(), NetworkLimits(connections_max_idle_ms=200))

    def reasons() -> list[str | None]:
        return [notice.reason for notice in told if notice.kind is CLOSED]

    bench.connect()
    bench.run_until(lambda: reasons() == ["idle"])
    bad = bench.connect()
    bad.sendall(b"\xff\xff\xff\xff")
    bench.run_until(lambda: reasons() == ["idle", "frame-negative-size"])
    bench.connect()
    bench.run_until(lambda: told[-1].kind is ACCEPTED)
    bench.server.pause(["EXTERNAL"], "the broker is fenced")
    bench.run_until(lambda: len(reasons()) == 3)
    assert reasons()[-1] == "its listener is closed"
    bench.connect()
    bench.run_until(lambda: told[-1].kind is REFUSED)
    assert told[-1].reason == "the broker is fenced"


def test_no_notices_are_kept_without_an_observer(bench: Bench) -> None:
    told = observed(bench, QuotaSettings())
    bench.server.connection_notices.observe(None)
    client = bench.connect()
    assert bench.ask(client)
    client.close()
    bench.run_until(lambda: bench.connection_count == 0)
    assert told == []


def test_the_notice_of_a_connection_rejected_by_a_connection_group_names_the_group(bench: Bench) -> None:
    told = observed(bench, replace(SHORT, ip_action=IpAction.DROP))
    groups = bench.server.connection_groups
    groups.set_limits("shop/a", AddressGroupLimits(max_connections=1))
    groups.set_limits("shop/b", AddressGroupLimits(rate=1))
    for name, member in (("shop/a", "127.0.5.1"), ("shop/b", "127.0.5.2")):
        groups.set_member(name, member, 1)
        for _ in range(2):
            bench.connect(source=member)
    bench.run_until(lambda: len([notice for notice in told if notice.kind is REFUSED]) == 2)
    assert [(notice.client_address, notice.limit) for notice in told if notice.kind is REFUSED] == [
        ("127.0.5.1", "connection-group.shop/a.max_connections"),
        ("127.0.5.2", "connection-group.shop/b.connection_creation_rate"),
    ]
