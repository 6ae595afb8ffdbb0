"""The built-in observer `prometheus`: requests, bytes, records and latency by configurable labels, on /metrics. Pure.

Each label is opt-in and has a maximum number of values. Later values are counted as `other`, so that no client can make
the metrics grow.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from broker_runtime.exposition import MetricFamily
from broker_runtime.observers.base import Config, NoResponse
from broker_runtime.observers.context import RequestContext
from broker_runtime.observers.settings import read_settings
from broker_runtime.observers.view import Struct
from broker_runtime.wire.versions import PRODUCE

OTHER = "other"
UNKNOWN = "unknown"
_PREFIX = "sluicegate_observed_"
_TOPIC = "topic"
_LABELS = ("api", "listener", "principal", "client_id", _TOPIC)
_OPEN_MAX = 10_000
"""Maximum number of Produce requests that wait for responses; beyond it the oldest are not counted by topic."""
_KEYS = {"labels": "api", "label.values.max": "100"}
_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Labels = tuple[str, ...]


class _Requests:
    """Counters of one set of labels."""

    __slots__ = ("buckets", "count", "request_bytes", "response_bytes", "seconds", "unanswered")

    def __init__(self) -> None:
        self.count = self.unanswered = self.request_bytes = self.response_bytes = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(_BOUNDS_S) + 1)


class _Topic:
    """Bytes and records in and out, for one set of labels with a topic."""

    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.records_in = 0


class _Produced(NamedTuple):
    """Content of a Produce request without a response yet: topic, bytes and records of each partition."""

    labels: Labels
    partitions: list[tuple[str, int, int]]


class PrometheusObserver:
    """An observer that counts requests for Prometheus. The counters begin at zero when the observer is loaded.

    Produced records count once they are accepted.
    """

    def __init__(self) -> None:
        self._requests: dict[Labels, _Requests] = {}
        self._topics: dict[Labels, _Topic] = {}
        self._unanswered: dict[NoResponse, int] = {}
        self._open: dict[str, _Produced] = {}

    def configure(self, config: Config) -> None:
        given = read_settings(config, _KEYS)
        labels = given.items("labels", _LABELS)
        self._labels = tuple(name for name in labels if name != _TOPIC)
        self._by_topic = _TOPIC in labels
        self._values_max = given.whole("label.values.max", 1)
        self._known: dict[str, set[str]] = {name: set() for name in _LABELS}

    def record_request(
        self,
        struct: Struct,
        client_address: str,
        principal: str,
        api_key: int,
        api_version: int,
        correlation_id: str,
    ) -> None:
        del client_address, principal, api_version
        context = struct.context
        labels = self._labels_of(context)
        figures = self._requests.get(labels)
        if figures is None:
            figures = self._requests[labels] = _Requests()
        figures.count += 1
        figures.request_bytes += context.request_bytes
        if self._by_topic and api_key == PRODUCE:
            brought = [
                (topic.get_topic() or UNKNOWN, partition.records.size, partition.records.count or 0)
                for topic in struct.get_array("topic_data")
                for partition in topic.partition_data
                if partition.records is not None
            ]
            self._open[correlation_id] = _Produced(labels, brought)
            if len(self._open) > _OPEN_MAX:
                del self._open[next(iter(self._open))]

    def record_response(self, struct: Struct, api_version: int, correlation_id: str) -> None:
        context = struct.context
        labels = self._labels_of(context)
        figures = self._requests.get(labels)
        if figures is not None:
            figures.response_bytes += context.response_bytes
            figures.seconds += context.duration_s
            figures.buckets[bisect_left(_BOUNDS_S, context.duration_s)] += 1
        if not self._by_topic:
            return
        produced = self._open.pop(correlation_id, None)
        if produced is not None:
            self._accepted(produced, _taken(struct))
        elif context.api_name == "Fetch":
            for topic in struct.get_array("responses"):
                size = sum(partition.records.size for partition in topic.partitions if partition.records is not None)
                if size:
                    self._topic(labels, topic.get_topic() or UNKNOWN).bytes_out += size

    def record_no_response(self, why: NoResponse, api_version: int, correlation_id: str) -> None:
        del api_version
        self._unanswered[why] = self._unanswered.get(why, 0) + 1
        produced = self._open.pop(correlation_id, None)
        if produced is not None and why is NoResponse.NOT_WANTED:
            self._accepted(produced, {topic for topic, _, _ in produced.partitions})

    def _accepted(self, produced: _Produced, topics: Collection[str]) -> None:
        for topic, size, records in produced.partitions:
            if topic in topics:
                figures = self._topic(produced.labels, topic)
                figures.bytes_in += size
                figures.records_in += records

    def _labels_of(self, context: RequestContext) -> Labels:
        return tuple([self._bounded(name, _VALUES[name](context)) for name in self._labels])

    def _bounded(self, label: str, value: str) -> str:
        known = self._known[label]
        if value not in known:
            if len(known) >= self._values_max:
                return OTHER
            known.add(value)
        return value

    def _topic(self, labels: Labels, topic: str) -> _Topic:
        key = (*labels, self._bounded(_TOPIC, topic))
        figures = self._topics.get(key)
        if figures is None:
            figures = self._topics[key] = _Topic()
        return figures

    def collect(self) -> Iterator[MetricFamily]:
        count = MetricFamily(_PREFIX + "requests_total", "counter", "Requests")
        bytes_in = MetricFamily(_PREFIX + "request_bytes_total", "counter", "Bytes of requests")
        bytes_out = MetricFamily(_PREFIX + "response_bytes_total", "counter", "Bytes of responses")
        seconds = MetricFamily(_PREFIX + "request_seconds", "histogram", "From reading a request to its response")
        for values, figures in self._requests.items():
            labels = dict(zip(self._labels, values, strict=True))
            count.add(figures.count, **labels)
            bytes_in.add(figures.request_bytes, **labels)
            bytes_out.add(figures.response_bytes, **labels)
            bounds = [*map(str, _BOUNDS_S), "+Inf"]
            seconds.add_histogram(
                list(zip(bounds, accumulate(figures.buckets), strict=True)), figures.seconds, **labels
            )
        yield from (count, bytes_in, bytes_out, seconds)
        unanswered = MetricFamily(_PREFIX + "unanswered_total", "counter", "Requests that have no response, and why")
        for why, number in self._unanswered.items():
            unanswered.add(number, why=why.value)
        yield unanswered
        yield from self._topic_families()

    def _topic_families(self) -> Iterator[MetricFamily]:
        size = MetricFamily(_PREFIX + "topic_bytes_total", "counter", "Bytes of records that were produced and fetched")
        records = MetricFamily(_PREFIX + "topic_records_total", "counter", "Records that were produced")
        for (*values, topic), figures in self._topics.items():
            labels = {**dict(zip(self._labels, values, strict=True)), _TOPIC: topic}
            size.add(figures.bytes_in, direction="in", **labels)
            size.add(figures.bytes_out, direction="out", **labels)
            records.add(figures.records_in, direction="in", **labels)
        yield from (size, records)

    def close(self, timeout_s: float) -> None:
        """Do nothing: no work is pending."""


def _taken(response: Struct) -> set[str]:
    """Return the topics of a Produce response that have a partition without an error."""
    return {
        topic.get_topic() or UNKNOWN
        for topic in response.get_array("responses")
        if any(not partition.error_code for partition in topic.partition_responses)
    }


_VALUES: Mapping[str, Callable[[RequestContext], str]] = {
    "api": lambda context: context.api_name,
    "listener": lambda context: context.listener,
    "principal": lambda context: context.principal,
    "client_id": lambda context: context.client_id or "",
}
