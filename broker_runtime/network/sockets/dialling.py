"""Open outgoing TCP connections: the Dialler of a real process. Shell."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from broker_runtime.config.declaring.endpoints import ENCRYPTED, ServerAddress
from broker_runtime.network.sockets.poller import LoopPoller, Poller
from broker_runtime.network.sockets.transport import TRANSPORTS, Transport, TransportFactory


class SocketDialler:
    """Opens connections to servers, and owns their poller.

    These connections are few, and the event loop watches each itself.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        encrypted: Callable[[ServerAddress], TransportFactory] | None = None,
    ) -> None:
        """`encrypted` returns the transports to a server that uses TLS, and raises OSError."""
        self.poller: Poller = LoopPoller(loop)
        self._loop = loop
        self._encrypted = encrypted

    async def dial(self, address: ServerAddress) -> Transport:
        if address.security_protocol in ENCRYPTED and self._encrypted is not None:
            transport: TransportFactory | None = self._encrypted(address)
        else:
            transport = TRANSPORTS.get(address.security_protocol)
        if transport is None:
            raise OSError(f"this broker does not support the security protocol {address.security_protocol.name} yet")
        # Uses Python's resolver: the event loop's own would bypass a replaced `socket.getaddrinfo`.
        look_up = partial(socket.getaddrinfo, address.host, address.port, type=socket.SOCK_STREAM)
        found = await self._loop.run_in_executor(None, look_up)
        for number, (family, kind, protocol, _, target) in enumerate(found, start=1):
            try:
                return transport(await self._connected(socket.socket(family, kind, protocol), target))
            except OSError:
                if number == len(found):
                    raise
        raise OSError(f"{address.host} has no address")

    async def _connected(self, opened: socket.socket, target: tuple[object, ...]) -> socket.socket:
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await self._loop.sock_connect(opened, target)
        except BaseException:
            opened.close()
            raise
        return opened
