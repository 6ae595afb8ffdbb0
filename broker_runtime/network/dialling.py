"""Opens outgoing TCP connections: the Dialler of a real process. Shell."""

import asyncio
import socket

from broker_runtime.config.endpoints import ServerAddress
from broker_runtime.network.poller import LoopPoller, Poller
from broker_runtime.network.transport import TRANSPORTS, Transport


class SocketDialler:
    """Owns the poller of what it dials: a few connections, each of them watched by the event loop itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.poller: Poller = LoopPoller(loop)
        self._loop = loop

    async def dial(self, address: ServerAddress) -> Transport:
        transport = TRANSPORTS.get(address.security_protocol)
        if transport is None:
            raise OSError(f"this broker does not have the security protocol {address.security_protocol.name} yet")
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
