"""Metrics of the cache and its watches; they continue across terms of leadership."""

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sluicegate_operator.kube.cache.cache import Cache


class CacheMetrics(Collector):
    """The cache's metrics, read in another thread. `clock` is that of the cache, in seconds."""

    def __init__(self, cache: Cache | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._now_s = clock

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily(
            "sluicegate_cache_objects", "Objects of the API server in the operator's cache", labels=["kind"]
        )
        silent = GaugeMetricFamily(
            "sluicegate_watch_silent_seconds",
            "Time since the last event of a kind's watch; the watch is requested again after 30 to 300 s, depending "
            "on the kind",
            labels=["kind"],
        )
        lists = CounterMetricFamily(
            "sluicegate_watch_lists",
            "How often a kind was listed: once at the start, and each time its watch could not continue from its last "
            "event",
            labels=["kind"],
        )
        now_s = self._now_s()
        for kind, one in ({} if self._cache is None else self._cache.informers()).items():
            objects.add_metric([kind.plural], len(one.store))
            lists.add_metric([kind.plural], one.lists)
            if one.last_contact_s:
                silent.add_metric([kind.plural], now_s - one.last_contact_s)
        yield from (objects, silent, lists)
