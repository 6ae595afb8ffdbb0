"""Grow the nodes' volumes to spec.storage: which claims ask for more, and the status of those in progress.

A claim grows by asking for more storage. No pod restarts for it, and no StatefulSet is created again: its claim
template stays unchanged (decision 43). The operator creates the claims of new nodes with the size of the spec. It does
so before the StatefulSet exists, which would mount any claim of the right name (decision 12). Each reconcile compares
claims with the spec, so an unfinished change is never lost. A claim never shrinks.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sluicegate_operator.api.models.broker_cluster import BrokerCluster, Storage
from sluicegate_operator.api.models.parts.broker_cluster_status import VolumesStatus
from sluicegate_operator.api.schema.quantities import amount, stored_amount
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.nodes.statefulset import CONTROLLER_STORAGE

GROWING_SHOWN_MAX = 120
SENTENCE_MAX = 1024
_FIELDS: Mapping[Role, str] = {Role.BROKER: "brokers", Role.CONTROLLER: "controllers"}


@dataclass(frozen=True, slots=True)
class Volume:
    """The volume claim of one node.

    `asked` and `capacity` are quantities, the latter empty before the claim is bound. `under_way` is the type and the
    message of the claim's own condition while it is resized.
    """

    claim: str
    uid: str
    role: Role
    ordinal: int
    asked: str
    capacity: str = ""
    class_name: str = ""
    under_way: str = ""

    @property
    def is_bound(self) -> bool:
        return self.capacity != ""


@dataclass(frozen=True, slots=True)
class Growth:
    """A volume claim of a node whose request must grow to `size`."""

    volume: Volume
    size: str


@dataclass(frozen=True, slots=True)
class NewVolume:
    """A claim to create before its StatefulSet is applied."""

    role: Role
    ordinal: int
    storage: Storage


@dataclass(frozen=True, slots=True)
class VolumesPlan:
    """The plan for a cluster's claims: claims to grow, claims to create, and all claims to report."""

    grow: tuple[Growth, ...] = ()
    make: tuple[NewVolume, ...] = ()
    volumes: tuple[Volume, ...] = ()
    """Claims of all wanted nodes."""


@dataclass(frozen=True, slots=True)
class VolumesSeen:
    """The status of a cluster's volumes. `refused`: a message about the first claim whose change was refused."""

    status: VolumesStatus
    refused: str = ""


def plan_volumes(
    cluster: BrokerCluster,
    volumes: Iterable[Volume],
    counts: Mapping[Role, int],
    going: Collection[tuple[Role, int]] = (),
) -> VolumesPlan:
    """Plan the volume claims of a cluster's nodes.

    `volumes` excludes claims that are being deleted; those are in `going`, by role and ordinal, because their names are
    not free yet. A claim that is not bound cannot ask for more. The claim of a node that was scaled away is left alone.
    """
    needed = tuple(volume for volume in volumes if volume.ordinal < counts[volume.role])
    grow, make = [], []
    for role in Role:
        storage = wanted_storage(cluster, role)
        size = storage.size
        own = [volume for volume in needed if volume.role is role]
        grow += [Growth(volume, size) for volume in own if volume.is_bound and _less(volume.asked, size)]
        there = {volume.ordinal for volume in own} | {ordinal for of_role, ordinal in going if of_role is role}
        make += [NewVolume(role, ordinal, storage) for ordinal in range(counts[role]) if ordinal not in there]
    return VolumesPlan(tuple(grow), tuple(make), needed)


def wanted_storage(cluster: BrokerCluster, role: Role) -> Storage:
    """Return the storage that the spec gives to each node of a role. Raises ValueError without own brokers."""
    brokers, controllers = cluster.spec.brokers, cluster.spec.controllers
    if role is Role.CONTROLLER:
        return (controllers.storage if controllers else None) or CONTROLLER_STORAGE
    if brokers is None:
        raise ValueError(f"BrokerCluster {cluster.name} has no brokers of its own")
    return brokers.storage


def volumes_seen(
    cluster: BrokerCluster, plan: VolumesPlan, grown: Iterable[Growth], refused: Mapping[str, str]
) -> VolumesSeen:
    """Return the volumes' status after the changes of `plan`.

    `grown` was accepted; `refused` has the API server's message by claim. An unbound claim that already asks for its
    full size is not reported: the pod that waits for it has a better message.
    """
    asks = {growth.volume.claim: growth.size for growth in grown}
    growing, sentences = [], {}
    asked: dict[Role, str] = {}
    for volume in plan.volumes:
        size = wanted_storage(cluster, volume.role).size
        asked[volume.role] = max((asked.get(volume.role, ""), asks.get(volume.claim, volume.asked)), key=stored_amount)
        if why := refused.get(volume.claim):
            sentences[volume.claim] = _refused(volume, size, why)
            growing.append(sentences[volume.claim])
        elif _less(volume.capacity if volume.is_bound else volume.asked, size):
            growing.append(_progress(volume, size, asked=volume.claim in asks or not _less(volume.asked, size)))
    shown = tuple(sentence[:SENTENCE_MAX] for sentence in growing[:GROWING_SHOWN_MAX])
    status = VolumesStatus(brokers=asked.get(Role.BROKER), controllers=asked.get(Role.CONTROLLER), growing=shown)
    return VolumesSeen(status, next(iter(sentences.values()), "")[:SENTENCE_MAX])


def _refused(volume: Volume, size: str, why: str) -> str:
    whose = f"its StorageClass {volume.class_name}" if volume.class_name else "a StorageClass, which it does not have,"
    return (
        f"{volume.claim} stays at {volume.asked} and cannot grow to {size}: this needs {whose} with"
        f" allowVolumeExpansion: true; otherwise set spec.{_FIELDS[volume.role]}.storage.size back to"
        f" {volume.asked}. The API server: {why}"
    )


def _progress(volume: Volume, size: str, *, asked: bool) -> str:
    if not volume.is_bound:
        return f"{volume.claim} is not bound to a volume yet; the requested size is {size}"
    if volume.under_way and asked:
        return f"{volume.claim} has {volume.capacity} of {size}: {volume.under_way}"
    if asked:
        return f"{volume.claim} has {volume.capacity} of {size}: the rest has been requested from Kubernetes"
    return f"{volume.claim} has {volume.capacity}, and {size} has not been requested yet"


def _less(text: str, size: str) -> bool:
    return stored_amount(text) < amount(size)
