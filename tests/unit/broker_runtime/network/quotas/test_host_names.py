"""Names are resolved beside the loop: all at once, with a time-out, by a limited number of threads."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from broker_runtime.network.quotas.host_names import HostNames

ADDRESSES = {"shop": ["10.0.0.1"], "both": ["::1", "::ffff:127.0.0.1", "127.0.0.1"]}


class Resolver:
    """Replaces the system's resolver: names that begin with `slow` are answered when `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: list[str] = []

    def __call__(self, name: str, port: Any, **_: Any) -> list[Any]:
        self.asked.append(name)
        if name.startswith("slow"):
            self.go.wait(60)
        if name not in ADDRESSES and not name.startswith("slow"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(0, 0, 0, "", (address, 0)) for address in ADDRESSES.get(name, ["10.9.9.9"])]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return resolver


async def test_all_addresses_of_a_name_in_the_spelling_of_clients(resolver: Resolver) -> None:
    found = await HostNames(60, 4).addresses(["shop", "both", "unknown", "no name"])
    assert found == {"shop": ("10.0.0.1",), "both": ("::1", "127.0.0.1")}
    assert "no name" not in resolver.asked


async def test_many_names_are_asked_for_at_once(resolver: Resolver) -> None:
    asking = asyncio.create_task(HostNames(60, 4).addresses([f"slow-{n}" for n in range(4)]))
    async with asyncio.timeout(60):
        while len(resolver.asked) < 4:  # noqa: ASYNC110 - set in threads
            await asyncio.sleep(0)
    resolver.go.set()
    assert len(await asking) == 4


async def test_a_resolver_that_does_not_answer_holds_up_nobody(resolver: Resolver) -> None:
    names = HostNames(0.01, 1)
    assert await names.addresses(["slow"]) == {}
    assert await names.addresses(["shop"]) == {}, "the only thread is still at the slow name"
    resolver.go.set()
    async with asyncio.timeout(60):
        while not await names.addresses(["shop"]):  # noqa: ASYNC110 - set in threads
            await asyncio.sleep(0)
    assert resolver.asked.count("slow") == 1


async def test_a_thread_that_cannot_be_started_is_free_again(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    del resolver

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = HostNames(60, 1)
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        assert await names.addresses(["shop"]) == {}
    async with asyncio.timeout(30):
        assert await names.addresses(["shop"]) == {"shop": ("10.0.0.1",)}
