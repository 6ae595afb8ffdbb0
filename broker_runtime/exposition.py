"""Metrics and their text format, version 0.0.4 of Prometheus' exposition formats. Pure.

prometheus_client does the same and more. With the HTTP server and client that it imports it costs a broker 2.6 MB of
memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Series:
    """One number of a metric. `suffix` is the text that a histogram appends to the metric's name."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric with all its series. The name of a counter ends in `_total`."""

    name: str
    kind: Kind
    help: str
    series: list[Series] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        self.series.append(Series(labels, value))

    def add_histogram(self, buckets: Iterable[tuple[str, float]], total: float, **labels: str) -> None:
        """Add a histogram of (upper bound, cumulative count) up to the bound `+Inf`.

        `total` is the sum of all values.
        """
        count = 0.0
        for bound, count in buckets:
            self.series.append(Series({**labels, "le": bound}, count, "_bucket"))
        self.series.append(Series(labels, count, "_count"))
        self.series.append(Series(labels, total, "_sum"))


def gauge(name: str, text: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", text, [Series({}, value)])


def counter(name: str, text: str, value: float) -> MetricFamily:
    return MetricFamily(name, "counter", text, [Series({}, value)])


def render(families: Iterable[MetricFamily]) -> bytes:
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: MetricFamily) -> Iterable[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for one in family.series:
        labels = ",".join(f'{name}="{_quoted(value)}"' for name, value in one.labels.items())
        shown = f"{{{labels}}}" if labels else ""
        yield f"{family.name}{one.suffix}{shown} {_number(one.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _number(value: float) -> str:
    text = repr(float(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)
