"""The dialled addresses; a process refuses those that it cannot dial before it opens a socket."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from broker_runtime.config import SecurityProtocol, ServerAddress
from broker_runtime.network.sockets.dialling import SocketDialler


async def test_a_security_protocol_that_is_not_built_is_refused_by_name() -> None:
    dialler = SocketDialler(asyncio.get_running_loop())
    with pytest.raises(OSError, match="does not support the security protocol SSL yet"):
        await dialler.dial(ServerAddress("no-such-host.invalid", 9092, SecurityProtocol.SSL))


async def test_every_address_of_a_host_is_tried_and_names_are_looked_up_by_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []

    class Loop:
        """A loop in which the first address has no listener."""

        async def run_in_executor(self, _: object, look_up: Callable[[], object]) -> object:
            return look_up()

        async def sock_connect(self, _: socket.socket, target: object) -> None:
            tried.append(target)
            if len(tried) == 1:
                raise ConnectionRefusedError

        def __getattr__(self, name: str) -> object:
            return getattr(asyncio.get_running_loop(), name)

    targets = [("127.0.0.1", 9092), ("127.0.0.2", 9092)]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", target) for target in targets]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    dialled = await SocketDialler(Loop()).dial(  # type: ignore[arg-type]
        ServerAddress("two-addresses.invalid", 9092, SecurityProtocol.PLAINTEXT)
    )
    dialled.close()
    assert tried == targets
