"""The entry point: a client of one cluster that keeps one connection to each broker that it has used.

`AdminClient` itself uses the first bootstrap broker that answers (a broker forwards writes to the controller);
`AdminClient.broker(host, port)` uses exactly that broker. A connection that ended is opened again, after a delay that
grows while the broker is unreachable.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from kio.static.protocol import ResponsePayload

from sluicegate_operator.kafka_admin.api import AdminApi
from sluicegate_operator.kafka_admin.connecting.connection import Connection, ConnectionSettings
from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import (
    Address,
    AdminConnectionError,
    AdminProtocolError,
    AdminTimeoutError,
    NoBrokerAnswersError,
)
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity, Connect

Reply = TypeVar("Reply", bound=ResponsePayload)
Result = TypeVar("Result")

FIRST_BACK_OFF_S = 0.05
MAX_BACK_OFF_S = 1.0
"""Maximum seconds between two attempts, so that a broker is found within a second after it recovers."""


class BrokerHandle(AdminApi):
    """The connection to one broker at one address. Get it from `AdminClient.broker`; the caller does not close it."""

    def __init__(self, address: Address, settings: ConnectionSettings, connect: Connect) -> None:
        self.address = address
        self._settings = settings
        self._connect = connect
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._failures = 0
        self._retry_at_s = 0.0
        self.repeated = 0
        """Number of requests that were sent again on another connection: the broker may execute them twice."""

    @property
    def is_away(self) -> bool:
        """Return whether the last attempt to connect failed."""
        return self._failures > 0

    async def call(self, exchange: Exchange[Reply, Result]) -> Result:
        reused = self._connection is not None and not self._connection.closed
        connection = await self._connected()
        try:
            return await connection.call(exchange)
        except AdminProtocolError:
            raise
        except AdminConnectionError:
            # An idle connection may have ended unnoticed; if a new one ends, the broker ended it.
            if not reused or not exchange.repeatable:
                raise
        self.repeated += 1
        return await (await self._connected()).call(exchange)

    async def aclose(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _connected(self) -> Connection:
        async with self._opening:
            if self._connection is not None and not self._connection.closed and self._connection.expired:
                self._connection.retire()
                self._connection = None
            if self._connection is None or self._connection.closed:
                self._connection = await self._reconnect()
            return self._connection

    async def _reconnect(self) -> Connection:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._retry_at_s - loop.time()))
        try:
            connection = await Connection.open(self.address, self._settings, self._connect)
        except BaseException:
            # A caller that gave up while connecting counts as well: nothing else would notice a broker whose packets
            # vanish. Half of the delay is random, so that many callers do not reconnect at the same time.
            delay_s = min(MAX_BACK_OFF_S, FIRST_BACK_OFF_S * 2**self._failures) * random.uniform(0.5, 1.0)
            self._failures = min(self._failures + 1, 16)
            self._retry_at_s = loop.time() + delay_s
            raise
        self._failures = 0
        return connection


class AdminClient(AdminApi):
    """The admin client of one cluster, used as `async with AdminClient([(host, port), ...]) as admin`.

    Belongs to one event loop.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        request_timeout_s: float = 5.0,
        client_id: str = "sluicegate-operator",
        connect: Connect | None = None,
        may_write: Callable[[], bool] = lambda: True,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """`connect` replaces the transport of `security`. Raises SecurityError for unusable certificates."""
        if not bootstrap:
            raise ValueError("an admin client needs at least one bootstrap address")
        self._settings = ConnectionSettings(request_timeout_s, client_id, may_write, sasl=security.sasl)
        self._connect = connect or security.connect()
        self._handles: dict[Address, BrokerHandle] = {}
        self._bootstrap = [self.broker(host, port) for host, port in bootstrap]

    def broker(self, host: str, port: int) -> BrokerHandle:
        """Return the handle for this address: always the same handle, and so the same connection."""
        address = (host, port)
        if address not in self._handles:
            self._handles[address] = BrokerHandle(address, self._settings, self._connect)
        return self._handles[address]

    async def forget(self, host: str, port: int) -> None:
        """Close the connection to an address that no broker has any more."""
        handle = self._handles.pop((host, port), None)
        if handle is not None:
            await handle.aclose()

    async def call(self, exchange: Exchange[Reply, Result]) -> Result:
        """Send a request to the first bootstrap broker that can be reached.

        Brokers that were unreachable last are tried last.
        """
        errors: list[AdminConnectionError | AdminTimeoutError] = []
        for handle in sorted(self._bootstrap, key=lambda handle: handle.is_away):
            try:
                return await handle.call(exchange)
            except (AdminConnectionError, AdminTimeoutError) as error:
                # An unreachable broker got no request; any other broker may have executed it.
                if not (exchange.repeatable or handle.is_away):
                    raise
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise NoBrokerAnswersError({error.address: error for error in errors})

    async def aclose(self) -> None:
        for handle in self._handles.values():
            await handle.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
