"""Latency of clients' requests: percentiles over time by API, from histograms, which can be added."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from audit_pipeline.report.figures.scope import Scope, within
from audit_pipeline.report.window import Span
from audit_pipeline.results.buckets import end_us

APIS = ("Produce", "Fetch")
"""The APIs that always have a plot if they have numbers. Other APIs have one only with the most requests."""
APIS_MAX = 3

_BUCKETS = f"""
SELECT api, {{at}} AS at_us, entry.key AS bucket, sum(entry.value)::BIGINT AS requests
FROM (
  SELECT api, window_start, unnest(map_entries(latency)) AS entry FROM latency_hist
  WHERE {within("window_start")} AND topic IS NULL
)
GROUP BY ALL ORDER BY api, at_us, bucket
"""


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    at_us: int
    requests: int
    p50_us: int
    p99_us: int


@dataclass(frozen=True, slots=True)
class ApiLatency:
    api: str
    whole: LatencyPoint
    points: tuple[LatencyPoint, ...]


@dataclass(frozen=True, slots=True)
class Latency:
    """The service times of all clusters, without the time that a Fetch waited for data."""

    apis: tuple[ApiLatency, ...]
    apis_left_out: int


def latency(scope: Scope) -> Latency:
    by_api: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in scope.ask(_BUCKETS.format(at="epoch_us(window_start) // $coarse_step_us * $coarse_step_us")):
        by_api[row["api"]][row["at_us"]][row["bucket"]] = row["requests"]
    wholes = {api: _added(times) for api, times in by_api.items()}
    ranked = sorted(wholes, key=lambda api: (api not in APIS, -sum(wholes[api].values()), api))
    drawn = sorted(ranked[:APIS_MAX], key=lambda api: (APIS.index(api) if api in APIS else len(APIS), api))
    found = []
    for api in drawn:
        points = [_point(at_us, buckets) for at_us, buckets in sorted(by_api[api].items())]
        found.append(ApiLatency(api, _point(scope.windows.shown.from_us, wholes[api]), tuple(points)))
    return Latency(tuple(found), len(ranked) - len(drawn))


def p99_by_api(scope: Scope, span: Span) -> dict[str, int]:
    by_api: dict[str, dict[int, int]] = defaultdict(dict)
    for row in scope.ask(_BUCKETS.format(at="0"), span):
        by_api[row["api"]][row["bucket"]] = row["requests"]
    return {api: percentile_us(buckets, 99) for api, buckets in by_api.items()}


def percentile_us(buckets: Mapping[int, int], percent: int) -> int:
    """Return the upper end of the first bucket at which the cumulative share of requests reaches `percent`."""
    ordered = sorted(buckets)
    below = accumulate(buckets[bucket] for bucket in ordered)
    needed = sum(buckets.values()) * percent
    reached = next(bucket for bucket, number in zip(ordered, below, strict=True) if number * 100 >= needed)
    return end_us(reached)


def _point(at_us: int, buckets: Mapping[int, int]) -> LatencyPoint:
    return LatencyPoint(at_us, sum(buckets.values()), percentile_us(buckets, 50), percentile_us(buckets, 99))


def _added(times: Mapping[int, Mapping[int, int]]) -> dict[int, int]:
    whole: dict[int, int] = defaultdict(int)
    for buckets in times.values():
        for bucket, requests in buckets.items():
            whole[bucket] += requests
    return dict(whole)
