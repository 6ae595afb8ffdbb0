"""The Store of an informer: the objects of one kind by key, indexed by the cluster that they belong to.

No object is replaced by an older resourceVersion: the operator's own writes are stored before the watch reports them.
The only exception is an API server whose storage was restored, which counts from an older resourceVersion.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from sluicegate_operator.kube.cache.cached_object import CachedObject

Key = tuple[str, str]
"""The namespace and name of an object."""
Change = tuple[CachedObject | None, CachedObject | None]
"""An object before and after a change; at least one of the two is not None."""


@dataclass(slots=True)
class Store:
    """The cached objects of one kind by key. Each method that changes something returns the changes."""

    _objects: dict[Key, CachedObject] = field(default_factory=dict)
    _by_cluster: dict[Key, dict[str, CachedObject]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> CachedObject | None:
        return self._objects.get((namespace, name))

    def of_cluster(self, namespace: str, cluster: str) -> Collection[CachedObject]:
        return self._by_cluster.get((namespace, cluster), {}).values()

    def values(self) -> Collection[CachedObject]:
        return self._objects.values()

    def names(self) -> Collection[Key]:
        return self._objects.keys()

    def put(self, cached: CachedObject) -> list[Change]:
        before = self._objects.get(cached.key)
        if before is not None and before.version >= cached.version:
            return []
        if before is not None and (before.uid, before.cluster) != (cached.uid, cached.cluster):
            self._take_out(before)
        self._objects[cached.key] = cached
        self._by_cluster.setdefault((cached.namespace, cached.cluster), {})[cached.name] = cached
        if before is not None and before.uid != cached.uid:
            return [(before, None), (None, cached)]
        return [(before, cached)]

    def remove(self, key: Key, version: int) -> list[Change]:
        """Remove an object that was deleted at `version`. An object of that name that was created later stays."""
        before = self._objects.get(key)
        if before is None or before.version > version:
            return []
        self._take_out(before)
        return [(before, None)]

    def remove_uid(self, key: Key, uid: str) -> list[Change]:
        """Remove the object with this uid, which the API server has deleted."""
        before = self._objects.get(key)
        if before is None or before.uid != uid:
            return []
        self._take_out(before)
        return [(before, None)]

    def forget_versions(self) -> None:
        """Let each object be replaced by any resourceVersion; it stays until then."""
        for cached in list(self._objects.values()):
            older = replace(cached, version=0)
            self._objects[cached.key] = older
            self._by_cluster[cached.namespace, cached.cluster][cached.name] = older

    def _take_out(self, cached: CachedObject) -> None:
        self._objects.pop(cached.key, None)
        place = (cached.namespace, cached.cluster)
        of_cluster = self._by_cluster.get(place, {})
        of_cluster.pop(cached.name, None)
        if not of_cluster:
            self._by_cluster.pop(place, None)
