"""How long a new cluster waits for what is applied together with it.

`kubectl apply -f FOLDER` sends one object after the other, the BrokerCluster before its BrokerListeners. Nodes that
were made of the first alone would be replaced as soon as the others are seen.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.engine.snapshot import ClusterKey

SETTLE_MAX_S = 10.0
"""However often something changes meanwhile."""


@dataclass(frozen=True, slots=True)
class _Sight:
    uid: str
    first_s: float
    changed_s: float
    objects: frozenset[tuple[str, int]]


@dataclass(slots=True)
class Settling:
    """`quiet_s`: nothing of the cluster has changed for so long. Times are seconds of the caller's clock."""

    quiet_s: float
    _sights: dict[ClusterKey, _Sight] = field(default_factory=dict)

    def wait_s(self, cluster: BrokerCluster, listeners: Iterable[BrokerListener], now_s: float) -> float:
        """The time that is left; zero once the cluster has settled. An earlier cluster of the name does not count."""
        key, uid = (cluster.namespace, cluster.name), cluster.metadata.uid
        objects = frozenset(one.spec_version for one in (cluster, *listeners))
        sight = self._sights.get(key)
        if sight is None or sight.uid != uid:
            sight = _Sight(uid, now_s, now_s, objects)
        elif sight.objects != objects:
            sight = _Sight(uid, sight.first_s, now_s, objects)
        self._sights[key] = sight
        return max(0.0, min(sight.changed_s + self.quiet_s, sight.first_s + SETTLE_MAX_S) - now_s)

    def forget(self, key: ClusterKey) -> None:
        self._sights.pop(key, None)
