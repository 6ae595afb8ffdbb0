"""Sums of the requests of one interval, by client, API and topic. Pure."""

from collections.abc import Iterator
from math import ceil, log
from typing import Final

from broker_runtime.apis.request.call import Call, Ending, PartitionFacts
from broker_runtime.apis.request.observed import answer_bytes
from broker_runtime.observers.audit_log.clients import ClientFacts
from broker_runtime.observers.audit_log.error_codes import error_of
from broker_runtime.observers.audit_log.layout import UNKNOWN_ERROR

LATENCY_BASE: Final = log(1.04)
_PRODUCE: Final = 0
_ANSWERED = Ending.ANSWERED
_NO_ERROR: Final = (0, UNKNOWN_ERROR)

_Who = tuple[str, str, str, str | None, str | None, str | None]


class _Sums:
    __slots__ = ("errors", "latency", "max_us", "records", "request_bytes", "requests", "response_bytes", "sum_us")

    def __init__(self) -> None:
        self.requests = self.errors = self.request_bytes = self.response_bytes = self.records = 0
        self.sum_us = self.max_us = 0
        self.latency: dict[int, int] = {}


class Rollup:
    """Sums over an interval of requests by client, API and topic. They are not durable.

    `is_full` once it has the maximum number of rows.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._sums: dict[tuple[_Who, int, str, str | None], _Sums] = {}
        self.requests = 0
        self.began_us = 0

    @property
    def is_full(self) -> bool:
        return len(self._sums) >= self._rows_max

    def add(self, call: Call, client: ClientFacts) -> None:
        """Add a call with its details to the sums."""
        self.requests += 1
        who = (
            client.listener,
            client.client_ip,
            client.principal,
            client.client_id,
            client.software_name,
            client.software_version,
        )
        api = call.api
        sums = self._of((who, api.key, api.name, None))
        sums.requests += 1
        sums.errors += call.ending is not _ANSWERED or error_of(call) not in _NO_ERROR
        sums.request_bytes += call.request_bytes
        sums.response_bytes += answer_bytes(call)
        took_us = round((call.completed_s - call.received_s) * 1e6)
        sums.sum_us += took_us
        sums.max_us = max(sums.max_us, took_us)
        bucket = latency_bucket(took_us)
        sums.latency[bucket] = sums.latency.get(bucket, 0) + 1
        for facts in call.partitions or ():
            self._add_partition(self._of((who, api.key, api.name, facts[0])), api.key, facts)

    def _add_partition(self, sums: _Sums, api_key: int, facts: PartitionFacts) -> None:
        _, _, size, records, _, _, _, _, error = facts
        sums.requests += 1
        sums.errors += error != 0
        if api_key == _PRODUCE:
            sums.request_bytes += size
            sums.records += max(records, 0)
        else:
            sums.response_bytes += size

    def taken(self, until_us: int) -> Iterator[tuple[object, ...]]:
        """Return the rows of the interval and begin a new interval. Values follow first_seq in the schema's order."""
        began_us, interval_us = self.began_us, max(until_us - self.began_us, 0)
        taken, self._sums, self.requests = self._sums, {}, 0
        for (who, api_key, api, topic), sums in taken.items():
            yield (
                began_us,
                interval_us,
                *who,
                api_key,
                api,
                topic,
                sums.requests,
                sums.errors,
                sums.request_bytes,
                sums.response_bytes,
                sums.records,
                sums.sum_us,
                sums.max_us,
                sums.latency,
            )

    def _of(self, key: tuple[_Who, int, str, str | None]) -> _Sums:
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = _Sums()
        return sums


def latency_bucket(took_us: int) -> int:
    """Return the histogram bucket of a latency. Buckets grow by 4 percent: merged histograms give percentiles."""
    return ceil(log(took_us) / LATENCY_BASE) if took_us > 1 else 0
