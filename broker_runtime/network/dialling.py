"""Opens outgoing TCP connections: the Dialler of a real process. Shell.

One that encrypts is another entry in `_TRANSPORTS`: its handshake is part of its first calls, as of an accepted one.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping

from broker_runtime.config.endpoints import SecurityProtocol, ServerAddress
from broker_runtime.network.poller import LoopPoller, Poller
from broker_runtime.network.transport import PlainTransport, Transport

_TRANSPORTS: Mapping[SecurityProtocol, Callable[[socket.socket], Transport]] = {
    SecurityProtocol.PLAINTEXT: PlainTransport
}


class SocketDialler:
    """Owns the poller of what it dials: a few connections, each of them watched by the event loop itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.poller: Poller = LoopPoller(loop)
        self._loop = loop

    async def dial(self, address: ServerAddress) -> Transport:
        transport = _TRANSPORTS.get(address.security_protocol)
        if transport is None:
            raise OSError(
                f"its security protocol {address.security_protocol.name} is one that this broker does not have"
            )
        found = await self._loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, target = found[0]
        connected = socket.socket(family, kind, protocol)
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await self._loop.sock_connect(connected, target)
        except BaseException:
            connected.close()
            raise
        return transport(connected)
