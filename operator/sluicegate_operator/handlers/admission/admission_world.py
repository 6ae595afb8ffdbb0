"""The part of the cache that a warning depends on: the object's cluster, and the objects that compete with the object.

A cluster may have ten thousand quotas, and a warning must not iterate over them: `SharedPlaces` finds the quotas of one
target and the Topics of one topic.
"""

import time
from collections.abc import Collection, Hashable, Iterator, Sequence
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.cache.store import Store
from sluicegate_operator.kube.http.kinds import (
    AUDIT_PIPELINE,
    BROKER_CLUSTER,
    BROKER_LISTENER,
    CONNECTION_QUOTA,
    KAFKA_USER,
    OBSERVER_PLUGIN,
    TOPIC,
    Kind,
)
from sluicegate_operator.preview.admission import decisive
from sluicegate_operator.quotas.model.targets import TargetKey, TargetKind

RIVALS_MAX = 5_000
"""Maximum number of objects of one place, which take some milliseconds to compare. With more, no warning is given."""
_AROUND = {
    BROKER_CLUSTER.kind: (BROKER_LISTENER,),
    BROKER_LISTENER.kind: (BROKER_LISTENER,),
    CONNECTION_QUOTA.kind: (BROKER_LISTENER,),
    OBSERVER_PLUGIN.kind: (OBSERVER_PLUGIN,),
    TOPIC.kind: (),
    KAFKA_USER.kind: (KAFKA_USER,),
    AUDIT_PIPELINE.kind: (AUDIT_PIPELINE,),
}
"""The kinds whose objects of the cluster are all read, by the kind of the applied object. A cluster has few of them."""

Place = tuple[str, str, Hashable]
"""A place that only one object may have: namespace, cluster, and the target or topic."""


class UncachedWorldError(Exception):
    """Error if the cache does not know enough for a warning."""


class SharedPlaces:
    """The names of the quotas on each target and of the Topics on each topic. A subscriber of the cache."""

    def __init__(self) -> None:
        self._names: dict[Place, str | set[str]] = {}
        """The names at each place: one name, as at nearly all places, or a set of several."""

    def on_change(self, kind: Kind, before: CachedObject | None, after: CachedObject | None) -> None:
        was, now = _place(before), _place(after)
        if was == now:
            return
        if was is not None and before is not None:
            self._remove(was, before.name)
        if now is not None and after is not None:
            self._add(now, after.name)

    def _add(self, place: Place, name: str) -> None:
        known = self._names.get(place)
        if known is None:
            self._names[place] = name
        elif isinstance(known, set):
            known.add(name)
        elif known != name:
            # A new subscriber may receive an object twice.
            self._names[place] = {known, name}

    def _remove(self, place: Place, name: str) -> None:
        known = self._names.get(place)
        if isinstance(known, set):
            known.discard(name)
            if not known:
                del self._names[place]
        elif known == name:
            del self._names[place]

    def names(self, resource: Resource) -> Collection[str]:
        """Return the names of the objects that compete with `resource`, in any order, perhaps with its own name."""
        place = _place_of(resource)
        known = self._names.get(place, ()) if place is not None else ()
        return (known,) if isinstance(known, str) else known


def _place(cached: CachedObject | None) -> Place | None:
    return _place_of(cached.value) if cached is not None and isinstance(cached.value, Resource) else None


def _place_of(resource: Resource) -> Place | None:
    if isinstance(resource, ConnectionQuota):
        target = TargetKey.of_quota(resource)
        # Two quotas on one workload are two connection groups.
        return None if target.kind is TargetKind.WORKLOAD else (resource.namespace, resource.cluster_name, target)
    if isinstance(resource, Topic):
        return resource.namespace, resource.cluster_name, resource.topic_name
    return None


class AdmissionWorld:
    """The objects that warnings depend on, read from the cache without requests.

    Belongs to the cache's event loop.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._places = SharedPlaces()

    async def follow(self) -> None:
        await self._cache.subscribe(self._places.on_change)

    def around(self, applied: Resource, now: datetime) -> Sequence[Resource]:
        """Return the cluster of `applied` and the objects that decide about it now.

        Raises UnknownWorldError if a kind is not known, or one of these objects cannot be read.
        """
        return list(self._around(applied, now))

    def lacks(self, applied: Resource, around: Sequence[Resource]) -> bool:
        """Return whether `applied` refers to a cluster or a listener that is missing in `around`."""
        if not any(isinstance(one, BrokerCluster) for one in around):
            return not isinstance(applied, BrokerCluster)
        if isinstance(applied, ConnectionQuota) and (wanted := applied.spec.target.listener) is not None:
            return not any(one.kind == BROKER_LISTENER.kind and one.spec.name == wanted for one in around)
        return False

    def _around(self, applied: Resource, now: datetime) -> Iterator[Resource]:
        namespace = applied.namespace
        cluster = applied.name if isinstance(applied, BrokerCluster) else applied.cluster_name
        yield from self._named(BROKER_CLUSTER, namespace, (cluster,))
        for kind in _AROUND[applied.kind]:
            yield from map(_read, self._store(kind).of_cluster(namespace, cluster))
        own = next((kind for kind in (CONNECTION_QUOTA, TOPIC) if kind.kind == applied.kind), None)
        if own is not None:
            names = self._places.names(applied)
            if len(names) > RIVALS_MAX:
                raise UncachedWorldError(f"{len(names)} objects conflict with {applied.kind} {applied.name}")
            rivals = self._named(own, namespace, [name for name in names if name != applied.name])
            yield from decisive(list(rivals), now)

    def _named(self, kind: Kind, namespace: str, names: Sequence[str]) -> Iterator[Resource]:
        store = self._store(kind)
        found = (store.get(namespace, name) for name in names)
        yield from (_read(cached) for cached in found if cached is not None)

    def _store(self, kind: Kind) -> Store:
        informer = self._cache.informers()[kind]
        if (why := informer.why_unknown(time.monotonic())) is not None:
            raise UncachedWorldError(str(why))
        return informer.store


def _read(cached: CachedObject) -> Resource:
    if not isinstance(cached.value, Resource):
        raise UncachedWorldError(f"{cached.name} cannot be read")
    return cached.value
