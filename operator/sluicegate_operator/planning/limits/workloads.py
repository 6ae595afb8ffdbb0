"""Track the addresses of the pods that workload quotas select, as pods, namespaces and quotas change. Pure.

A changed pod costs only the quotas that may match it: each quota is indexed under one label that its pods must have. An
address belongs to one pod at a time (`pod_index`). So the quotas of its previous pod do not limit a reused address.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from sluicegate_operator.api.models.connection_quota import Workload
from sluicegate_operator.planning.limits.connection_groups import number_of_pod
from sluicegate_operator.planning.limits.pod_index import PodIndex, WorkloadPod, discard
from sluicegate_operator.planning.status.label_selection import Pair, matches, one_of

QuotaKey = tuple[str, str]
"""The namespace and name of a ConnectionQuota."""


@dataclass(frozen=True, slots=True)
class Members:
    """The addresses of the pods that one ConnectionQuota selects.

    `addresses`: addresses, each with the number of its pod. `host_network_pods`: number of selected pods that use their
    node's address.
    """

    addresses: Mapping[str, float] = field(default_factory=dict)
    host_network_pods: int = 0


@dataclass(slots=True)
class _Quota:
    namespace: str
    workload: Workload
    pods: set[str] = field(default_factory=set)
    """Uids of the selected pods."""
    host_network_pods: set[str] = field(default_factory=set)
    """Uids of the selected pods that use their node's address."""
    addresses: dict[str, float] = field(default_factory=dict)
    """Addresses of the selected pods, with the pods' numbers."""


_Place = tuple[str | None, Pair | None]
"""Index key of a quota: a namespace (None: any) and one label that its pods have (None: no such label)."""
_NOBODY: frozenset[QuotaKey] = frozenset()
_Holder = tuple[str, frozenset[QuotaKey]]
"""The uid of a pod, and the quotas that select it."""


class WorkloadIndex:
    """The index of pods, namespaces and workload quotas. Each change returns the quotas whose members changed.

    Invariant between two calls: a quota has an address if and only if it selects the pod that owns the address.
    """

    def __init__(self) -> None:
        self._quotas: dict[QuotaKey, _Quota] = {}
        self._places: defaultdict[_Place, set[QuotaKey]] = defaultdict(set)
        self._pods = PodIndex()
        self._selected: dict[str, frozenset[QuotaKey]] = {}
        """The quotas that select a pod, by its uid; pods that no quota selects are left out."""
        self._namespaces: dict[str, Mapping[str, str]] = {}

    @property
    def quotas(self) -> Set[QuotaKey]:
        return self._quotas.keys()

    def workload(self, key: QuotaKey) -> Workload:
        return self._quotas[key].workload

    def members(self, key: QuotaKey) -> Members:
        """Return the addresses of the pods that a quota selects. Raises KeyError if the quota is not in the index."""
        quota = self._quotas[key]
        return Members(dict(quota.addresses), len(quota.host_network_pods))

    def put_quota(self, key: QuotaKey, workload: Workload) -> bool:
        """Add or replace a quota, and return whether the quota changed.

        Scans all pods of the namespaces that the quota may select.
        """
        before = self._quotas.get(key)
        if before is not None and before.workload == workload:
            return False
        self.drop_quota(key)
        quota = self._quotas[key] = _Quota(key[0], workload)
        for place in _places(quota):
            self._places[place].add(key)
        for pod in self._pods_within(quota):
            if self._selects(quota, pod):
                self._select(key, pod)
                own = [address for address in pod.addresses if self._pods.owner(address) == pod.uid]
                quota.addresses |= dict.fromkeys(own, number_of_pod(pod.uid))
        return True

    def drop_quota(self, key: QuotaKey) -> None:
        quota = self._quotas.get(key)
        if quota is None:
            return
        for place in _places(quota):
            discard(self._places, place, key)
        for uid in list(quota.pods):
            self._unselect(key, uid)
        del self._quotas[key]

    def put_pod(self, pod: WorkloadPod) -> set[QuotaKey]:
        before = self._pods.by_uid.get(pod.uid)
        if before == pod:
            return set()
        holders = self._holders({*(before.addresses if before else ()), *pod.addresses})
        self._pods.put(pod)
        return self._select_anew(pod) | self._hand_over(holders)

    def drop_pod(self, uid: str) -> set[QuotaKey]:
        pod = self._pods.by_uid.get(uid)
        if pod is None:
            return set()
        holders = self._holders(pod.addresses)
        changed = set(self._selected.get(uid, _NOBODY)) if pod.host_network else set()
        for key in self._selected.get(uid, _NOBODY):
            self._unselect(key, uid)
        self._pods.drop(uid)
        return changed | self._hand_over(holders)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> set[QuotaKey]:
        """Add a namespace to the index, or replace it. Scans the namespace's pods if its labels changed."""
        if self._namespaces.get(name) == labels:
            return set()
        self._namespaces[name] = dict(labels)
        return self._select_namespace_anew(name)

    def drop_namespace(self, name: str) -> set[QuotaKey]:
        if self._namespaces.pop(name, None) is None:
            return set()
        return self._select_namespace_anew(name)

    def _select_namespace_anew(self, name: str) -> set[QuotaKey]:
        changed: set[QuotaKey] = set()
        for uid in self._pods.of_namespace(name):
            pod = self._pods.by_uid[uid]
            holders = self._holders(pod.addresses)
            changed |= self._select_anew(pod) | self._hand_over(holders)
        return changed

    def _pods_within(self, quota: _Quota) -> Iterable[WorkloadPod]:
        if quota.workload.namespace_selector is None:
            return [self._pods.by_uid[uid] for uid in self._pods.of_namespace(quota.namespace)]
        return self._pods.by_uid.values()

    def _selects(self, quota: _Quota, pod: WorkloadPod) -> bool:
        if not matches(quota.workload.pod_selector, pod.labels):
            return False
        wanted = quota.workload.namespace_selector
        if wanted is None:
            return pod.namespace == quota.namespace
        labels = self._namespaces.get(pod.namespace)
        return labels is not None and matches(wanted, labels)

    def _candidates(self, pod: WorkloadPod) -> set[QuotaKey]:
        found: set[QuotaKey] = set()
        for namespace in (pod.namespace, None):
            for pair in (None, *pod.labels.items()):
                found |= self._places.get((namespace, pair), _NOBODY)
        return found

    def _select_anew(self, pod: WorkloadPod) -> set[QuotaKey]:
        """Select a pod again, and return the quotas whose number of host-network pods changed.

        Addresses are handed over afterwards.
        """
        before = self._selected.get(pod.uid, _NOBODY)
        now = {key for key in self._candidates(pod) if self._selects(self._quotas[key], pod)}
        for key in before - now:
            self._unselect(key, pod.uid)
        for key in now - before:
            self._select(key, pod)
        return set(before ^ now) if pod.host_network else set()

    def _select(self, key: QuotaKey, pod: WorkloadPod) -> None:
        self._quotas[key].pods.add(pod.uid)
        if pod.host_network:
            self._quotas[key].host_network_pods.add(pod.uid)
        before = self._selected.get(pod.uid)
        self._selected[pod.uid] = frozenset((key,)) if before is None else before | {key}

    def _unselect(self, key: QuotaKey, uid: str) -> None:
        self._quotas[key].pods.discard(uid)
        self._quotas[key].host_network_pods.discard(uid)
        self._selected[uid] -= {key}
        if not self._selected[uid]:
            del self._selected[uid]

    def _holders(self, addresses: Iterable[str]) -> dict[str, _Holder]:
        """Return by address the pod that owns it now, and the quotas that select this pod."""
        owners = {address: self._pods.owner(address) or "" for address in addresses}
        return {address: (uid, self._selected.get(uid, _NOBODY)) for address, uid in owners.items()}

    def _hand_over(self, before: Mapping[str, _Holder]) -> set[QuotaKey]:
        """Move each address from the quotas that had it `before` to those that have it now; return the changed ones."""
        changed: set[QuotaKey] = set()
        now = self._holders(before)
        for address, (pod_before, former) in before.items():
            pod, holders = now[address]
            joined = holders - former if pod == pod_before else holders
            for key in former - holders:
                del self._quotas[key].addresses[address]
            for key in joined:
                self._quotas[key].addresses[address] = number_of_pod(pod)
            changed |= joined | (former - holders)
        return changed


def _places(quota: _Quota) -> list[_Place]:
    namespace = quota.namespace if quota.workload.namespace_selector is None else None
    pairs = one_of(quota.workload.pod_selector)
    return [(namespace, pair) for pair in pairs] or [(namespace, None)]
