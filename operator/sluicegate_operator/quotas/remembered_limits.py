"""Limits of ConnectionQuotas on brokers that others run: what is to be set is in the BrokerCluster's status before
it is set, and is lifted when no quota wants it any more, whoever was away when the quota went.
"""

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.engine.context import ReconcileContext
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.quotas.brokers import EnforcementResult, WantedLimits
from sluicegate_operator.quotas.external import enforce_beside_others
from sluicegate_operator.quotas.ledger import LimitLedger
from sluicegate_operator.quotas.shared_limits import Mine

LIMITS_SET = "limitsSet"
"""The field of the status."""


class ExternalLimits:
    """Remembers for each cluster what it has set there."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._mine: dict[ClusterKey, tuple[str, Mine]] = {}
        """The BrokerCluster's uid, and what was written into its status last: what is read of it may be older."""

    async def enforce(
        self, cluster: BrokerCluster, pool: BrokerPool, wanted: WantedLimits, ledger: LimitLedger
    ) -> EnforcementResult:
        """Raises what the context raises while it remembers."""
        key, uid = (cluster.namespace, cluster.name), cluster.metadata.uid

        async def remember(mine: Mine) -> None:
            await self._context.remember(cluster, {LIMITS_SET: sorted(mine)})
            self._mine[key] = uid, mine

        written_for, before = self._mine.get(key, ("", frozenset[str]()))
        if written_for != uid:
            before = frozenset(cluster.status.limits_set or ())
        return await enforce_beside_others(pool, wanted, ledger, before, remember)

    def forget(self, key: ClusterKey) -> None:
        self._mine.pop(key, None)
