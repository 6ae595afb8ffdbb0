"""Pods of anybody, for the quotas on workloads: which addresses each has now, and which cluster is to hear of a change.

No I/O: whoever watches pods and namespaces tells of them here, and only while `wanted` says so. What is kept of a pod
is little, and until all of them were told of once nothing is known of any workload.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from sluicegate_operator.api.connection_quota import ConnectionQuota, Workload
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.planning.workloads import Members, QuotaKey, WorkloadIndex, WorkloadPod


class Workloads:
    """`changed(cluster)` is called when members of its quotas have come or gone."""

    def __init__(self, changed: Callable[[ClusterKey], None]) -> None:
        self._changed = changed
        self._index = WorkloadIndex()
        self._clusters: dict[QuotaKey, ClusterKey] = {}
        self._news: defaultdict[ClusterKey, set[str]] = defaultdict(set)
        self.known = False
        """Whether all pods and namespaces were told of; otherwise members are missing."""

    @property
    def wanted(self) -> bool:
        """Whether there is a quota that selects pods: nobody else asks for them."""
        return bool(self._clusters)

    def keep(self, cluster: ClusterKey, quotas: Iterable[ConnectionQuota]) -> None:
        """All ConnectionQuotas of a cluster, as they are now; those of other targets are passed over."""
        workloads: dict[QuotaKey, Workload] = {
            (quota.namespace, quota.name): quota.spec.target.workload
            for quota in quotas
            if quota.spec.target.workload is not None
        }
        for key in [key for key, owner in self._clusters.items() if owner == cluster and key not in workloads]:
            del self._clusters[key]
            self._news[cluster].discard(key[1])
            self._index.drop_quota(key)
        for key, workload in workloads.items():
            before, self._clusters[key] = self._clusters.get(key), cluster
            if self._index.put_quota(key, workload) or before != cluster:
                self._news[cluster].add(key[1])
        if not self.wanted:
            self.forget()

    def take_news(self, cluster: ClusterKey) -> dict[str, Members]:
        """Of the quotas whose members are others than when they were taken last, by name. Empty while not `known`."""
        if not self.known:
            return {}
        return {name: self._index.members((cluster[0], name)) for name in self._news.pop(cluster, ())}

    def forget(self) -> None:
        """Nobody watches any more: what is known would grow old."""
        news = set(self._clusters)
        quotas = {key: self._index.workload(key) for key in news}
        self._index = WorkloadIndex()
        for key, workload in quotas.items():
            self._index.put_quota(key, workload)
            self._news[self._clusters[key]].add(key[1])
        self.known = False

    def on_pod(self, uid: str, pod: WorkloadPod | None) -> None:
        """None: it is gone, or has ended."""
        self._tell(self._index.drop_pod(uid) if pod is None else self._index.put_pod(pod))

    def on_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """None: it is gone."""
        self._tell(self._index.drop_namespace(name) if labels is None else self._index.put_namespace(name, labels))

    def told_all(self) -> None:
        """Of every pod and namespace that is there."""
        self.known = True
        for cluster in [cluster for cluster, names in self._news.items() if names]:
            self._changed(cluster)

    def tell_everybody(self) -> None:
        """Each cluster that has a quota which selects pods."""
        for cluster in set(self._clusters.values()):
            self._changed(cluster)

    def _tell(self, quotas: Iterable[QuotaKey]) -> None:
        for key in quotas:
            cluster = self._clusters[key]
            self._news[cluster].add(key[1])
            if self.known:
                self._changed(cluster)
