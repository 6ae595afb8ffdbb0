"""Connections to the brokers of each cluster, kept between reconciles."""

from collections.abc import Callable

from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity


class Pools:
    """The connections to brokers: one client for each cluster.

    Connections to brokers that are gone are closed.
    """

    def __init__(self, may_write: Callable[[], bool] = lambda: True) -> None:
        self._may_write = may_write
        self._clients: dict[ClusterKey, AdminClient] = {}
        self._known: dict[ClusterKey, set[tuple[str, int]]] = {}
        self._security: dict[ClusterKey, ClientSecurity] = {}

    async def of(
        self, key: ClusterKey, brokers: tuple[BrokerAddress, ...], security: ClientSecurity = PLAINTEXT
    ) -> BrokerPool | None:
        """Return the pool of connections to these brokers; None without brokers.

        Other credentials make new connections.
        """
        if not brokers:
            return None
        if self._security.get(key, security) != security:
            await self.forget(key)
        addresses = {(broker.host, broker.port) for broker in brokers}
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = AdminClient(sorted(addresses), may_write=self._may_write, security=security)
            self._security[key] = security
        for host, port in self._known.get(key, set()) - addresses:
            await client.forget(host, port)
        self._known[key] = addresses
        return BrokerPool(client, brokers)

    async def forget(self, key: ClusterKey) -> None:
        self._known.pop(key, None)
        self._security.pop(key, None)
        client = self._clients.pop(key, None)
        if client is not None:
            await client.aclose()

    async def aclose(self) -> None:
        for key in list(self._clients):
            await self.forget(key)
