"""Metrics of the webhook: its answers, and whether API servers reach it. They are absent while admission is off."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class AdmissionResult(StrEnum):
    """The webhook's answer about an object that a user applies. Each answer allows the object."""

    WARNED = "warned"
    SILENT = "silent"
    """No warning is due."""
    UNKNOWN = "unknown"
    """No warning is given because the cache does not know enough."""
    FAILED = "failed"
    """No warning is given because of an error of the operator, which is in its log."""


class AdmissionMetrics(Collector):
    """The webhook's metrics. Any thread may read them; the operator's event loop changes them."""

    def __init__(self) -> None:
        self.requests: Counter[AdmissionResult] = Counter()
        self.expires_s: float | None = None
        """Unix time when the served certificate ends; None while there is none."""
        self.reachable: bool | None = None
        """Result of the last check; None if this process does not check, because another one leads."""

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "sluicegate_admission_requests",
            "Requests of API servers about applied objects, by the webhook's result; all objects were allowed",
            labels=["result"],
        )
        for result in AdmissionResult:
            requests.add_metric([result], self.requests[result])
        expires = GaugeMetricFamily(
            "sluicegate_admission_certificate_expiration_timestamp_seconds",
            "Unix time at which the webhook's certificate expires",
        )
        if self.expires_s is not None:
            expires.add_metric([], self.expires_s)
        reachable = GaugeMetricFamily(
            "sluicegate_admission_reachable",
            "1 if the API server reached the webhook at the last check, 0 if objects are applied without warnings",
        )
        if self.reachable is not None:
            reachable.add_metric([], float(self.reachable))
        yield from (requests, expires, reachable)
