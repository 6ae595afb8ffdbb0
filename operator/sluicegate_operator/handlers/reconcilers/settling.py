"""How long a new cluster waits for objects that are applied together with it.

`kubectl apply -f FOLDER` sends one object after the other, the BrokerCluster before its BrokerListeners. Nodes made
from the BrokerCluster alone would be replaced as soon as the listeners are seen.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.pods.by_cluster import ByCluster

SETTLE_MAX_S = 10.0
"""Maximum wait for a new cluster in seconds, even if its objects keep changing."""


@dataclass(slots=True)
class _Sight:
    """Times at which a BrokerCluster was first seen, and at which it or a listener last changed."""

    first_s: float = math.inf
    changed_s: float = math.inf
    objects: frozenset[tuple[str, int]] = frozenset()
    """The uid and generation of the cluster and of each listener."""


@dataclass(slots=True)
class Settling:
    """Tells which new clusters have not changed for some time.

    A cluster has settled if it has not changed for `quiet_s`. Times are seconds of the caller's clock.
    """

    quiet_s: float
    _sights: ByCluster[_Sight] = field(default_factory=lambda: ByCluster(_Sight))

    def wait_s(self, cluster: BrokerCluster, listeners: Iterable[BrokerListener], now_s: float) -> float:
        """Return the remaining seconds of the wait; zero once the cluster has settled.

        An earlier cluster of the name does not count.
        """
        sight, objects = self._sights.of(cluster), frozenset(one.spec_version for one in (cluster, *listeners))
        sight.first_s = min(sight.first_s, now_s)
        if sight.objects != objects:
            sight.objects, sight.changed_s = objects, now_s
        return max(0.0, min(sight.changed_s + self.quiet_s, sight.first_s + SETTLE_MAX_S) - now_s)

    def forget(self, key: ClusterKey) -> None:
        self._sights.forget(key)
