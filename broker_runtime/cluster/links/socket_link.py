"""A broker's link to controllers in other processes: one connection, opened on demand."""

import asyncio
from collections.abc import Sequence

from broker_runtime.cluster.links.controller_ring import ControllerRing
from broker_runtime.config.declaring.endpoints import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.network.connection.outgoing.client_connection import ClientConnection, ClientConnector
from broker_runtime.wire.reply import Parts

_STUCK_S = 3.0
"""If a request is cancelled after a controller has not answered for this time, the next controller is tried."""


class SocketLink:
    """A ControllerLink over a socket. Owns the connection and the assumed active controller; nothing is durable."""

    def __init__(self, servers: Sequence[ServerAddress], connector: ClientConnector) -> None:
        self._ring = ControllerRing(servers)
        self._connector = connector
        self._connection: ClientConnection | None = None
        self._connected_to: ServerAddress | None = None
        self._connecting = asyncio.Lock()

    @property
    def choices(self) -> int:
        return len(self._ring)

    @property
    def server(self) -> ServerAddress:
        return self._ring.first

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> Parts:
        connection = await self._connected()
        try:
            return (await connection.exchange(api_key, version, body),)
        except asyncio.CancelledError:
            if connection.waited_s() >= _STUCK_S:
                connection.close()
            raise

    async def _connected(self) -> ClientConnection:
        async with self._connecting:
            connection = self._connection
            if connection is None or connection.lost:
                if connection is not None and self._connected_to is not None:
                    # The controller that lost it (a standby that closed it, a controller that died) is tried last.
                    self._ring.pass_by(self._connected_to)
                connection = self._connection = None
                connection = self._connection = await self._connect()
            return connection

    async def _connect(self) -> ClientConnection:
        """Connect to the first controller in the ring that can be reached; it stays first.

        The ring may turn to another one meanwhile: then that one is tried, and the new connection is closed.
        """
        ring = self._ring
        problems = []
        for _ in range(2 * len(ring)):
            server = ring.first
            try:
                connection = await self._connector.connect(server, "the controller")
            except KafkaError as error:
                problems.append(str(error))
                ring.pass_by(server)
            except asyncio.CancelledError:
                ring.pass_by(server)
                raise
            else:
                if server == ring.first:
                    self._connected_to = server
                    return connection
                connection.close()
            if len(problems) >= len(ring):
                break
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "; ".join(problems) or "the controllers change too often")

    def move_on(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def turn_to(self, server: ServerAddress) -> None:
        if self._ring.turn_to(server) and self._connection is not None:
            self._connection.close()
            # A lost connection would make the next request move on in the ring, away from the right controller.
            self._connection = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
