"""The known brokers, and the connections to those that the consumer reads from."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from kafka_bytes.push.messages import Broker
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.closing import ClosingConnections
from sluicegate_consumer.connections.connection import FrameConnection, RequestConnection
from sluicegate_consumer.connections.coordinator import CoordinatorConnection
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.fetch import HIGHEST, LOWEST
from sluicegate_consumer.wire.kafka import FETCH, Request, api_versions_request, read_api_versions

_CONNECTIONS_MAX = 2
"""Connections to one broker: while one waits for records that are no longer wanted, the other fetches new ones."""


class BrokerLink:
    """The connections to one broker, opened on demand."""

    def __init__(self, broker: Broker, settings: Settings, closing: ClosingConnections | None = None) -> None:
        self.broker = broker
        self.fetch_version = LOWEST
        self._settings = settings
        self._closing = closing
        self._connections: list[RequestConnection] = []
        self._dialling = asyncio.Lock()
        self._closed = False

    async def ask(self, request: Request, wait_s: float = 0.0) -> memoryview:
        """Send a request and return the body of the response. Raises OSError or ProtocolError.

        The broker may take `wait_s` longer than the usual timeout.
        """
        connection = await self._free()
        return await connection.ask(request, self._settings.request_timeout_s + wait_s)

    async def ready(self) -> None:
        """Open a connection if there is none, which sets `fetch_version`."""
        await self._free()

    async def _free(self) -> RequestConnection:
        async with self._dialling:
            usable = self._usable()
            least_busy = min(usable, key=lambda each: each.owed, default=None)
            if least_busy is not None and not least_busy.owed:
                return least_busy
            if least_busy is not None and len(usable) >= _CONNECTIONS_MAX:
                forsaken = next((each for each in usable if each.forsaken), None)
                if forsaken is None:
                    return least_busy
                forsaken.close()
                self._connections.remove(forsaken)
            self._check_open()
            opened = await self._dial()
            if self._closed:
                opened.close()
            self._check_open()
            self._connections.append(opened)
            return opened

    def _usable(self) -> list[RequestConnection]:
        """Return the connections for new requests. Expired ones close as soon as no caller waits for a response."""
        for each in self._connections:
            if each.expired and (not each.owed or each.forsaken):
                each.close()
        self._connections = [each for each in self._connections if not each.ended]
        return [each for each in self._connections if not each.expired]

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionResetError(f"broker {self.broker.id} is no longer at this address")

    async def _dial(self) -> RequestConnection:
        opened = await RequestConnection.open(self.broker.host, self.broker.port, self._settings, self._closing)
        try:
            body = await opened.ask(api_versions_request(), self._settings.request_timeout_s)
            self.fetch_version = _fetch_version(read_api_versions(body))
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        """Close the link for good: a caller that still has it cannot open a connection that would never be closed."""
        self._closed = True
        for each in self._connections:
            each.close()
        self._connections.clear()


def _fetch_version(versions: Mapping[int, tuple[int, int]]) -> int:
    low, high = versions.get(FETCH, (0, 0))
    found = min(high, HIGHEST)
    if found < max(low, LOWEST):
        raise ProtocolError(
            f"the broker supports Fetch {low} to {high}, but this consumer supports {LOWEST} to {HIGHEST}"
        )
    return found


class Brokers:
    """The brokers that the cluster has reported last, and the bootstrap servers."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], settings: Settings) -> None:
        self._bootstrap = tuple(bootstrap)
        self._settings = settings
        self._closing = ClosingConnections()
        self._known: dict[int, Broker] = {}
        self._links: dict[int, BrokerLink] = {}
        self._rotation = count()

    def learn(self, brokers: Iterable[Broker]) -> None:
        """Replace the known brokers with the present ones. Close connections to addresses that have changed."""
        found = {broker.id: broker for broker in brokers}
        if not found:
            return
        self._known = found
        for node, link in list(self._links.items()):
            if found.get(node) != link.broker:
                link.close()
                del self._links[node]

    async def open(self, address: tuple[str, int]) -> FrameConnection:
        """Open a connection for frames of the push protocol. Raises OSError or AuthenticationError."""
        return await CoordinatorConnection.open(*address, self._settings, self._closing)

    def next_address(self) -> tuple[str, int]:
        """Return the next address, in rotation over the known brokers and the bootstrap servers."""
        everybody = [(broker.host, broker.port) for broker in self._known.values()]
        everybody += [address for address in self._bootstrap if address not in everybody]
        return everybody[next(self._rotation) % len(everybody)]

    def get(self, node: int) -> Broker | None:
        return self._known.get(node)

    def link(self, node: int) -> BrokerLink | None:
        """Return the link to a broker; None for an unknown broker."""
        broker = self._known.get(node)
        if broker is None:
            return None
        if node not in self._links:
            self._links[node] = BrokerLink(broker, self._settings, self._closing)
        return self._links[node]

    def any_link(self) -> BrokerLink | None:
        """Return the link to a known broker, a different one each time; None without known brokers."""
        nodes = list(self._known)
        return self.link(nodes[next(self._rotation) % len(nodes)]) if nodes else None

    async def close(self) -> None:
        """Close all connections, and wait for the end of connections with TLS."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        await self._closing.wait()
