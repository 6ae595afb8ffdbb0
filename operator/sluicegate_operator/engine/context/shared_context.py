"""The common part of the contexts of the operator and of `sluicegate up`."""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NoReturn, TypeVar

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.changed_messages import ChangedMessages
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.engine.context.pools import Pools
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.external.external_fleet import ExternalFleet
from sluicegate_operator.fleet.external.external_security import ReadSecret, SecretUnusableError, no_secrets
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.node_security import NodeSecurity, NoNodeSecurityError
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.fleet.protocol import Fleet
from sluicegate_operator.planning.external.external_status import Sibling

log = logging.getLogger(__name__)

AnyFleet = TypeVar("AnyFleet", bound=Fleet)


class SharedContext(Generic[AnyFleet]):
    """The part of reconcilers' environment that both operators share.

    It keeps the progress of clusters, the connections to their brokers, and the last sentence about each subject.
    """

    def __init__(
        self,
        fleet: AnyFleet,
        clusters: Callable[[], Iterable[Sibling]],
        may_write: Callable[[], bool] = lambda: True,
        read_secret: ReadSecret = no_secrets,
    ) -> None:
        """`clusters` returns all known clusters. `may_write`: whether brokers may be changed now."""
        self.fleet = fleet
        self.external = ExternalFleet(may_write, clusters, read_secret)
        self.first_seen = FirstSeen()
        self.progress = ByCluster(ClusterProgress)
        self.mark: Callable[[Queue, ClusterKey], None] = _no_queues
        """Function that puts a cluster into another queue, by the queue's name; set by the owner of the queues."""
        self.is_due: Callable[[Queue, ClusterKey], bool] = _no_queues
        """Function that returns whether that queue must reconcile a cluster again, for a change since it began."""
        self._said: ChangedMessages[tuple[Hashable, ...]] = ChangedMessages()
        self.node_security = NodeSecurity(read_secret)
        self._pools = Pools(may_write)

    async def pool(self, cluster: BrokerCluster) -> BrokerPool | None:
        """Return the brokers that have an address now; None without such brokers.

        Connections are kept between calls.
        """
        key = (cluster.namespace, cluster.name)
        if not cluster.spec.is_external:
            return await self.pool_of(cluster, await self.fleet.broker_addresses(cluster))
        brokers = await self.external.broker_addresses(cluster)
        try:
            security = await self.external.security(cluster)
        except SecretUnusableError:
            # The status of the BrokerCluster reports it.
            return None
        return await self._pools.of(key, brokers, security)

    async def pool_of(self, cluster: BrokerCluster, brokers: tuple[BrokerAddress, ...]) -> BrokerPool | None:
        """Return a pool of these brokers of a bundled cluster; None without brokers or without a certificate."""
        try:
            security = await self.node_security.of(cluster)
        except NoNodeSecurityError as error:
            # The condition CertificatesCurrent of the BrokerCluster reports it.
            if self.is_news(str(error), "node security", cluster.metadata.uid):
                log.warning("cluster %s: the operator cannot connect to its nodes: %s", cluster.name, error)
            return None
        return await self._pools.of((cluster.namespace, cluster.name), brokers, security)

    def is_news(self, sentence: str, *subject: Hashable) -> bool:
        """Return whether the last sentence about the subject differs from `sentence`: logs leave repetitions out."""
        return self._said.note(subject, sentence, asyncio.get_running_loop().time()) is None

    async def forget_cluster(self, key: ClusterKey) -> None:
        self.progress.forget(key)
        self.node_security.forget(key)
        await self.external.forget(key)
        await self._pools.forget(key)

    async def aclose(self) -> None:
        await self.external.aclose()
        await self._pools.aclose()


def _no_queues(queue: Queue, key: ClusterKey) -> NoReturn:
    raise RuntimeError(f"queue {queue} does not exist yet for {key}")
