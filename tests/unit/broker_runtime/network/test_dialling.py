"""What a process cannot dial it refuses before it opens a socket."""

import asyncio

import pytest

from broker_runtime.config import SecurityProtocol, ServerAddress
from broker_runtime.network.dialling import SocketDialler


async def test_a_security_protocol_that_is_not_built_is_refused_by_name() -> None:
    dialler = SocketDialler(asyncio.get_running_loop())
    with pytest.raises(OSError, match="does not have the security protocol SSL yet"):
        await dialler.dial(ServerAddress("no-such-host.invalid", 9092, SecurityProtocol.SSL))
