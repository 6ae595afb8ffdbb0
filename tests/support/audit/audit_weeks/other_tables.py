"""Rows of a segment other than requests and connections: inventory, and intervals of level rollup."""

from math import log
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tests.support.audit.audit_weeks.cast import CREATE_TOPICS, PRODUCE, Rows
from tests.support.audit.audit_weeks.requests import MINUTE_US, Requests, Span

Numbers = np.ndarray[Any, Any]

HOUR_US: Final = 60 * MINUTE_US
INTERVAL_US: Final = 5 * MINUTE_US
_BUCKETS: Final = 4_096
_PARTITION_BYTES: Final = 10_000_000


def inventory(span: Span, times_us: Numbers) -> Rows:
    """Every partition of the broker at each of these times; partitions have two replicas, and leaders move."""
    held = [
        (topic, partition, distance)
        for topic, each in enumerate(span.cast.topics)
        for partition in range(each.partitions)
        for distance in (0, 1)
        if (partition + distance) % span.brokers == span.broker and distance < span.brokers
    ]
    topic, partition, distance = np.tile(np.array(held, np.int64).reshape(-1, 3), (len(times_us), 1)).T
    at_us = np.repeat(times_us, len(held)) + np.tile(np.arange(len(held)), len(times_us))
    hour = at_us // HOUR_US
    grown = np.where(np.array([each.use == "always" for each in span.cast.topics])[topic], hour % 10_000, 0)
    moved = (hour // 5 + topic) % 3 == 0
    size = _PARTITION_BYTES + 1_000 * grown * (topic + 1) + partition - 77 * distance
    return {
        "ts": at_us,
        "topic": topic,
        "partition": partition,
        "bytes": size,
        "log_start_offset": np.zeros(len(at_us), np.int64),
        "log_end_offset": size // 90,
        # For an hour in five both replicas are reported as leader, as when the leader has moved in between.
        "is_leader": np.where(moved, 1, distance) != 1 if span.brokers > 1 else np.ones(len(at_us), bool),
    }


def full_hours(span: Span, every: int) -> Numbers:
    step = every * HOUR_US
    return np.arange(-(-span.first_us // step) * step, span.last_us, step)


def is_added_up(requests: Rows) -> Numbers:
    """Which requests are aggregated: level rollup still records administrative requests one by one."""
    added: Numbers = requests["api"] != CREATE_TOPICS
    return added


def intervals(made: Requests, topics: int) -> tuple[Rows, pa.Array]:
    """Rows of the table rollup, by the index of their interval, and their histograms.

    Columns of numbers: interval (in the order of time), ts, client, api, topic, and the sums.
    """
    rows, parts = made.requests, made.partitions
    total_us = rows["handler_us"] + rows["wait_us"]
    is_produce = rows["api"][parts["request"]] == PRODUCE
    key = ((rows["ts"] // INTERVAL_US) * _BUCKETS + rows["client"]) * 64 + rows["api"]
    of_topics = key[parts["request"]] * (topics + 1) + parts["topic"] + 1
    keys, group = np.unique(np.concatenate([key * (topics + 1), of_topics]), return_inverse=True)
    count, own = len(keys), len(key)

    def summed(of_requests: Numbers, of_parts: Numbers) -> Numbers:
        values = np.concatenate([of_requests, of_parts]).astype(np.float64)
        return np.bincount(group, values, count).astype(np.int64)

    nothing, ones = np.zeros(len(parts["topic"]), np.int64), np.ones(len(parts["topic"]), np.int64)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, group[:own], total_us)
    of_interval = keys // (topics + 1) // 64 // _BUCKETS
    _, interval = np.unique(of_interval, return_inverse=True)
    found = {
        "interval": interval,
        "ts": of_interval * INTERVAL_US,
        "client": keys // (topics + 1) // 64 % _BUCKETS,
        "api": keys // (topics + 1) % 64,
        "topic": keys % (topics + 1) - 1,
        "requests": summed(np.ones(own), ones),
        "errors": summed((rows["error_code"] != 0) | (rows["ending"] != 0), parts["error_code"] != 0),
        "request_bytes": summed(rows["request_bytes"], np.where(is_produce, parts["bytes"], 0)),
        "response_bytes": summed(rows["response_bytes"], np.where(is_produce, 0, parts["bytes"])),
        "records": summed(np.zeros(own), np.maximum(parts["records"], 0)),
        "total_us_sum": summed(total_us, nothing),
        "total_us_max": longest,
    }
    return found, _histograms(group[:own], total_us, count)


def _histograms(group: Numbers, total_us: Numbers, count: int) -> pa.Array:
    bucket = np.ceil(np.log(np.maximum(total_us, 1)) / log(1.04)).astype(np.int64)
    pairs, requests = np.unique(group * _BUCKETS + bucket, return_counts=True)
    offsets = np.searchsorted(pairs // _BUCKETS, np.arange(count + 1))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(pairs % _BUCKETS, pa.int16()), pa.array(requests, pa.int64())
    )
