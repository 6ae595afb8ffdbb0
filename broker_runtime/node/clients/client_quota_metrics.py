"""The metrics of client quotas. Names of the figures of one bucket follow Kafka's groups Produce, Fetch, Request.

Only buckets that were throttled recently are shown, and at most a hundred of each kind: clients choose their client
ids, and must not flood the metrics.
"""

from collections.abc import Iterator

from broker_runtime.apis.request.enforced_quotas import EnforcedQuotas
from broker_runtime.client_quotas.managed_quota import QuotaFigures
from broker_runtime.client_quotas.mutation_quota import MutationQuota
from broker_runtime.client_quotas.rate_quota import RateQuota
from broker_runtime.exposition import MetricFamily, counter

_US_OF_A_PERCENT = 10_000


def client_quota_families(quotas: EnforcedQuotas, now_ms: int) -> Iterator[MetricFamily]:
    """Yield the metrics of a broker's client quotas."""
    yield from _totals(
        "sluicegate_client_quota_",
        {
            "produce": quotas.produce.figures,
            "fetch": quotas.fetch.figures,
            "request": quotas.request.figures,
        },
    )
    yield counter(
        "kafka_server_request_exempt_request_time_seconds_total",
        "Time of requests that count for no request quota, counted while there are client quotas",
        quotas.exempt_s_total,
    )
    bytes_text = "Bytes a second of a user or client id that was throttled recently"
    yield from _of_buckets(quotas.produce, "kafka_server_produce_", "byte_rate", bytes_text, 1, now_ms)
    yield from _of_buckets(quotas.fetch, "kafka_server_fetch_", "byte_rate", bytes_text, 1, now_ms)
    time_text = "Percentage of the event loop's time that a user or client id used that was throttled recently"
    yield from _of_buckets(quotas.request, "kafka_server_request_", "request_time", time_text, _US_OF_A_PERCENT, now_ms)


def mutation_quota_families(quota: MutationQuota, now_ms: int) -> Iterator[MetricFamily]:
    """Yield the metrics of the active controller's quota of created and deleted partitions."""
    prefix = "kafka_server_controller_mutation_"
    yield from _totals("sluicegate_controller_mutation_quota_", {"": quota.figures})
    tokens = MetricFamily(
        prefix + "tokens", "gauge", "Partitions that a user or client id may change at once; negative while throttled"
    )
    times = _throttle_times(prefix)
    for (user, client_id), limit, meter in quota.shown():
        tokens.add(meter.left(limit, now_ms), user=user, client_id=client_id)
        times.add(meter.throttle_ms_total / 1000, user=user, client_id=client_id)
    yield from (tokens, times)


def _totals(prefix: str, figures: dict[str, QuotaFigures]) -> Iterator[MetricFamily]:
    """Yield the counts of kinds of quotas. A kind without a name has no label."""
    throttled = MetricFamily(prefix + "throttled_requests_total", "counter", "Requests whose client was throttled")
    times = MetricFamily(
        prefix + "throttle_time_seconds_total", "counter", "Sum of the throttle times of throttled requests"
    )
    buckets = MetricFamily(prefix + "buckets", "gauge", "Users and client ids whose usage is measured separately")
    shared = MetricFamily(
        prefix + "shared_requests_total",
        "counter",
        "Requests measured together with others, because sluicegate.client.quota.buckets.max was reached",
    )
    for kind, counts in figures.items():
        labels = {"quota": kind} if kind else {}
        throttled.add(counts.throttled_total, **labels)
        times.add(counts.throttle_ms_total / 1000, **labels)
        buckets.add(counts.buckets, **labels)
        shared.add(counts.shared_total, **labels)
    yield from (throttled, times, buckets, shared)


def _of_buckets(
    quota: RateQuota, prefix: str, figure: str, text: str, scale: int, now_ms: int
) -> Iterator[MetricFamily]:
    rates, times = MetricFamily(prefix + figure, "gauge", text), _throttle_times(prefix)
    for (user, client_id), _, meter in quota.shown():
        rates.add(meter.per_second(now_ms) / scale, user=user, client_id=client_id)
        times.add(meter.throttle_ms_total / 1000, user=user, client_id=client_id)
    yield from (rates, times)


def _throttle_times(prefix: str) -> MetricFamily:
    return MetricFamily(
        prefix + "throttle_time_seconds_total",
        "counter",
        "Sum of the throttle times of a user or client id that was throttled recently",
    )
