"""The clusters with AuditPipelines that a change of another object's place in an object store concerns."""

from collections.abc import Iterator

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.pods.landing_places import results_at
from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.planning.layout.store_places import StorePlace, store_place


class PipelinePlaces:
    """The places where AuditPipelines write their results."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[ClusterKey, StorePlace]] = {}
        """The cluster and the place of results of each AuditPipeline, by its uid."""

    def concerned(self, before: CachedObject | None, after: CachedObject | None) -> set[ClusterKey]:
        """Record a change of a BrokerCluster or an AuditPipeline. Return the clusters that may be affected.

        These are the clusters of AuditPipelines whose place of results overlaps a place that the object had or has now.
        A new object affects none, because older objects keep their places.
        """
        for cached in (before, after):
            results = results_at(cached.value) if cached is not None else None
            if cached is None or results is None:
                continue
            if cached is after:
                self._places[cached.uid] = (cached.namespace, cached.cluster), store_place(results.uri)
            else:
                self._places.pop(cached.uid, None)
        if before is None:
            return set()
        changed = [place for cached in (before, after) for place in _places(cached)]
        return {key for key, place in self._places.values() if any(place.overlaps(one) for one in changed)}


def _places(cached: CachedObject | None) -> Iterator[StorePlace]:
    value = cached.value if cached is not None else None
    if (results := results_at(value)) is not None:
        yield store_place(results.uri)
    elif isinstance(value, BrokerCluster) and value.spec.landing is not None and value.spec.landing.uri is not None:
        yield store_place(value.spec.landing.uri)
