"""From the parts' own figures to Prometheus metric families, made when somebody asks. Knows no arithmetic."""

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker_runtime.network.metrics import Sample

_FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


def families(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Groups samples by name, keeping their order."""
    found: dict[str, Metric] = {}
    for sample in samples:
        family = found.get(sample.name)
        if family is None:
            names = tuple(sample.labels)
            family = found[sample.name] = _FAMILIES[sample.kind](sample.name, sample.help, labels=names)
        family.add_metric(tuple(sample.labels.values()), sample.value)  # type: ignore[attr-defined]
    yield from found.values()
