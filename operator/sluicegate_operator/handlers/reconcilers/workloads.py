"""Pods of any owner, for quotas on workloads: the current addresses of each, and the clusters that a change concerns.

No I/O: the watch of pods and namespaces reports changes here, only while `wanted` is True. Little is kept of each pod.
Until all pods and namespaces have been reported once, the members of every workload are unknown.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from sluicegate_operator.api.models.connection_quota import ConnectionQuota, Workload
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.planning.limits.pod_index import WorkloadPod
from sluicegate_operator.planning.limits.workloads import Members, QuotaKey, WorkloadIndex


class Workloads:
    """The pods that quotas select as their members.

    `changed(cluster)` is called when members of the cluster's quotas were added or removed.
    """

    def __init__(self, changed: Callable[[ClusterKey], None]) -> None:
        self._changed = changed
        self._index = WorkloadIndex()
        self._clusters: dict[QuotaKey, ClusterKey] = {}
        self._news: defaultdict[ClusterKey, set[str]] = defaultdict(set)
        self.known = False
        """Whether all pods and namespaces were reported; otherwise members are missing."""

    @property
    def wanted(self) -> bool:
        """Return whether a quota selects pods. Otherwise pods need not be known."""
        return bool(self._clusters)

    def keep(self, cluster: ClusterKey, quotas: Iterable[ConnectionQuota]) -> None:
        """Record all current ConnectionQuotas of a cluster. Quotas with other targets are skipped."""
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
        """Return the members of the quotas whose members changed since the last call, by name.

        Empty while not `known`.
        """
        if not self.known:
            return {}
        return {name: self._index.members((cluster[0], name)) for name in self._news.pop(cluster, ())}

    def forget(self) -> None:
        """Drop all members, because they would become outdated without a watch."""
        news = set(self._clusters)
        quotas = {key: self._index.workload(key) for key in news}
        self._index = WorkloadIndex()
        for key, workload in quotas.items():
            self._index.put_quota(key, workload)
            self._news[self._clusters[key]].add(key[1])
        self.known = False

    def on_pod(self, uid: str, pod: WorkloadPod | None) -> None:
        """Record a pod; None means that the pod is gone or has ended."""
        self._mark(self._index.drop_pod(uid) if pod is None else self._index.put_pod(pod))

    def on_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Record the labels of a namespace; None means that the namespace is gone."""
        self._mark(self._index.drop_namespace(name) if labels is None else self._index.put_namespace(name, labels))

    def note_all_known(self) -> None:
        """Record that every existing pod and namespace was reported."""
        self.known = True
        for cluster in [cluster for cluster, names in self._news.items() if names]:
            self._changed(cluster)

    def mark_all(self) -> None:
        """Mark each cluster that has a quota which selects pods."""
        for cluster in set(self._clusters.values()):
            self._changed(cluster)

    def _mark(self, quotas: Iterable[QuotaKey]) -> None:
        for key in quotas:
            cluster = self._clusters[key]
            self._news[cluster].add(key[1])
            if self.known:
                self._changed(cluster)
