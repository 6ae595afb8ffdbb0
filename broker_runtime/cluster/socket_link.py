"""A broker's link to controllers in other processes: one connection, made when it is needed."""

import asyncio
from collections.abc import Sequence

from broker_runtime.cluster.controller_ring import ControllerRing
from broker_runtime.config.endpoints import ServerAddress
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.network.client_connection import ClientConnection, ClientConnector

_STUCK_S = 3.0
"""A controller that has not answered for so long is asked no more when somebody gives up waiting: the next one is."""


class SocketLink:
    """A ControllerLink. Owns its connection and what it knows of who is active; nothing is durable."""

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

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        connection = await self._connected()
        try:
            return await connection.exchange(api_key, version, body)
        except asyncio.CancelledError:
            if connection.waited_s() >= _STUCK_S:
                connection.close()
            raise

    async def _connected(self) -> ClientConnection:
        async with self._connecting:
            connection = self._connection
            if connection is None or connection.lost:
                if connection is not None and self._connected_to is not None:
                    # Whoever lost it - a standby that hung up, a controller that died - is asked last.
                    self._ring.pass_by(self._connected_to)
                connection = self._connection = None
                connection = self._connection = await self._connect()
            return connection

    async def _connect(self) -> ClientConnection:
        """To the first in the ring that can be reached; it is first from then on.

        The ring may turn to another one meanwhile: then that one is asked, and what has been made is given up.
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
            # Whoever finds a lost connection asks the next one in the ring; this one is the right one.
            self._connection = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
