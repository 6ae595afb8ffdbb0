"""Pods that ConnectionQuotas select, as the quota path sees them: only Kubernetes has any."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.planning.workloads import Members


class SelectedPods(Protocol):
    """What the quota path asks of whoever watches pods."""

    @property
    def in_all_namespaces(self) -> bool: ...

    @property
    def unseen(self) -> str:
        """Why pods that come or go have not been seen for some time; empty while they are."""

    def keep(self, cluster: ClusterKey, quotas: Iterable[ConnectionQuota]) -> None:
        """All ConnectionQuotas of a cluster, as they are now."""

    def take_news(self, cluster: ClusterKey) -> Mapping[str, Members]:
        """Of its quotas whose members are others than when they were taken last, by name; none before all are known."""
