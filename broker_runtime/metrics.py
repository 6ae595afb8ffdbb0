"""From the parts' own figures to Prometheus metric families, made when somebody asks. Knows no arithmetic."""

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from broker_runtime.apis.dispatch import RequestCount
from broker_runtime.network.metrics import Sample

_PROCESS = ProcessCollector(registry=None)


def families(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Groups samples by name, keeping their order."""
    found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for sample in samples:
        family = found.get(sample.name)
        if family is None:
            kind = CounterMetricFamily if sample.kind == "counter" else GaugeMetricFamily
            family = found[sample.name] = kind(sample.name, sample.help, labels=tuple(sample.labels))
        family.add_metric(tuple(sample.labels.values()), sample.value)
    yield from found.values()


def process_families() -> Iterable[Metric]:
    """Memory, descriptors, CPU and start time of this process, where the system tells them."""
    return _PROCESS.collect()


def request_families(counts: Iterable[RequestCount]) -> Iterator[Metric]:
    total = CounterMetricFamily("kafka_network_request_total", "Requests by API", labels=("request",))
    failed = CounterMetricFamily(
        "kafka_network_request_errors_total", "Requests that ended their connection, by API", labels=("request",)
    )
    for count in counts:
        total.add_metric((count.request,), count.total)
        failed.add_metric((count.request,), count.failed)
    yield from (total, failed)


def membership_families(state: int, epoch: int, fenced: bool) -> Iterator[Metric]:
    yield _gauge("kafka_server_broker_state", "Kafka's BrokerState of this broker: 3 is running", state)
    yield _gauge("sluicegate_broker_epoch", "Epoch of this broker's registration", epoch)
    yield _gauge("sluicegate_broker_fenced", "1 while the controller fences this broker", fenced)


def metadata_families(offset: int) -> Iterator[Metric]:
    yield _gauge("sluicegate_metadata_offset", "Last metadata record that this node has applied", offset)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
