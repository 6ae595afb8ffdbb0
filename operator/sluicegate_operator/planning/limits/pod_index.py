"""The pods that workload quotas may select, by their uids, namespaces and addresses. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

_At = TypeVar("_At")
_Item = TypeVar("_Item")
FINISHED_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class WorkloadPod:
    """The index's entry of a pod that quotas may select. Its uid stands for everything immutable.

    `addresses` are canonical. `started` orders pods that had the same address one after the other: a time as Kubernetes
    writes it, in UTC and to the second.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    addresses: tuple[str, ...] = ()
    host_network: bool = False
    leaving: bool = False
    """Whether the pod is terminating; its connections still belong to it."""
    started: str = ""

    @property
    def age(self) -> tuple[bool, str, str]:
        """Return the sort key by which the pod with the larger key owns an address that two pods have."""
        return (not self.leaving, self.started, self.uid)


def canonical(address: str) -> str:
    """Return the address in the spelling of brokers. Raises ValueError for other text."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)


class PodIndex:
    """An index of pods by address. An address belongs to one pod at a time, the newest that has it."""

    def __init__(self) -> None:
        self._by_uid: dict[str, WorkloadPod] = {}
        self.by_uid: Mapping[str, WorkloadPod] = self._by_uid
        self._by_namespace: defaultdict[str, set[str]] = defaultdict(set)
        self._by_address: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, pod: WorkloadPod) -> None:
        """Add or replace a pod in the index.

        The address of its node, which the pod uses in the host network, is not the pod's own.
        """
        before = self._by_uid.get(pod.uid)
        if before is not None:
            self._take_away(before)
        self._by_uid[pod.uid] = pod
        self._by_namespace[pod.namespace].add(pod.uid)
        if not pod.host_network:
            for address in pod.addresses:
                self._by_address[address].add(pod.uid)

    def drop(self, uid: str) -> None:
        self._take_away(self._by_uid.pop(uid))

    def _take_away(self, pod: WorkloadPod) -> None:
        discard(self._by_namespace, pod.namespace, pod.uid)
        for address in pod.addresses:
            discard(self._by_address, address, pod.uid)

    def of_namespace(self, name: str) -> Set[str]:
        """Return the uids of the namespace's pods."""
        return self._by_namespace.get(name, frozenset())

    def owner(self, address: str) -> str | None:
        """Return the uid of the pod that owns the address."""
        uids = self._by_address.get(address, ())
        if len(uids) == 1:
            # Nearly always.
            return next(iter(uids))
        return max(uids, key=lambda uid: self._by_uid[uid].age, default=None)


def discard(sets: dict[_At, set[_Item]], at: _At, item: _Item) -> None:
    """Remove an item of the set at a key, and an empty set with its key."""
    found = sets.get(at)
    if found is not None:
        found.discard(item)
        if not found:
            del sets[at]
