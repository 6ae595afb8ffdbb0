"""Metrics of requests by API, as in Kafka (kafka.network:type=RequestMetrics): requests, failures, time.

Pure: an observer of calls. A request is counted when it has ended.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker_runtime.apis.request.call import Api, Call, Ending

_ANSWERED, _CANCELLED = Ending.ANSWERED, Ending.CANCELLED


class RequestCount(NamedTuple):
    """The counts of one API's requests.

    `failed` of `total` requests were refused or hung up; `time_s` is the time of all requests.
    """

    request: str
    total: int
    failed: int
    time_s: float


class _Figures:
    __slots__ = ("failed", "time_s", "total")

    def __init__(self) -> None:
        self.total = self.failed = 0
        self.time_s = 0.0


class RequestMetrics:
    """The counts and times of requests by API key. They start at zero with the process."""

    def __init__(self, served: Iterable[Api]) -> None:
        self._names = {api.key: api.name for api in served}
        self._figures = {key: _Figures() for key in self._names}

    def on_call(self, call: Call) -> None:
        figures = self._figures[call.api.key]
        figures.total += 1
        figures.time_s += call.completed_s - call.received_s
        if call.ending is not _ANSWERED and call.ending is not _CANCELLED:
            figures.failed += 1

    def collect(self) -> Iterator[RequestCount]:
        """Yield the present counts of every API."""
        for key, figures in self._figures.items():
            yield RequestCount(self._names[key], figures.total, figures.failed, figures.time_s)
