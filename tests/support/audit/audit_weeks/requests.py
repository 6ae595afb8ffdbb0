"""Requests of one segment and their effect on partitions, drawn at random, and requests injected for a purpose."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.support.audit.audit_weeks.cast import (
    API_VERSIONS,
    FEED,
    FETCH,
    MIRROR,
    PRODUCE,
    Cast,
    Rows,
    draw_apis,
    draw_clients,
    draw_topics,
)

Numbers = np.ndarray[Any, Any]

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
DAY_US: Final = 86_400 * SECOND_US
NO_ACKS: Final = -128
_RECORD_BYTES: Final = 90
_NOT_LEADER: Final = 6
_MAX_WAIT_US: Final = 500_000
_FEED_RECORDS: Final = 10


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one segment of a broker; requests between the two of `slow_us` take ten times as long."""

    cast: Cast
    broker: int
    brokers: int
    first_us: int
    last_us: int
    is_first_day: bool = False
    slow_us: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Requests:
    """Rows of request and of partition; the column `request` of the latter is an index into the former."""

    requests: Rows
    partitions: Rows


def joined(parts: list[Requests]) -> Requests:
    begins = np.cumsum([0] + [len(part.requests["ts"]) for part in parts])
    partitions = [
        {**part.partitions, "request": part.partitions["request"] + begin}
        for part, begin in zip(parts, begins[:-1], strict=True)
    ]
    return Requests(concatenated([part.requests for part in parts]), concatenated(partitions))


def concatenated(parts: list[Rows]) -> Rows:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def draw_times(rng: np.random.Generator, span: Span, count: int) -> Numbers:
    """Draw times of requests, more by day than by night."""
    minutes = np.arange(span.first_us, span.last_us, MINUTE_US)
    weight = 1 + 0.6 * np.sin((minutes % DAY_US) / DAY_US * 2 * np.pi - np.pi / 2)
    place = np.searchsorted(np.cumsum(weight / weight.sum())[:-1], rng.random(count), side="right")
    at_us = minutes[place] + (rng.random(count) * MINUTE_US).astype(np.int64)
    return np.sort(np.minimum(at_us, span.last_us - 1))


def draw_requests(rng: np.random.Generator, span: Span, count: int) -> Requests:
    at_us = draw_times(rng, span, count)
    client = draw_clients(rng, span.cast, span.broker, count)
    api = draw_apis(rng, span.cast, client)
    is_produce, is_fetch = api == PRODUCE, api == FETCH
    ending = np.where(rng.random(count) < 0.004, rng.integers(1, 4, count), 0)
    is_failed = (rng.random(count) < 0.01) & (is_produce | is_fetch)
    is_long_poll = is_fetch & (rng.random(count) < 0.3)
    wanted = np.where(is_produce, rng.choice([1, 1, 1, 2, 3], count), np.where(is_fetch, rng.choice([1, 2], count), 0))
    partitions = _draw_partitions(rng, span, at_us, np.where(is_long_poll | (ending == 1), 0, wanted))
    first = np.diff(partitions["request"], prepend=-1) > 0
    of = partitions["request"]
    _fill(rng, partitions, at_us[of], is_produce[of], failed=is_failed[of] & first)
    slower = np.where((at_us >= span.slow_us[0]) & (at_us < span.slow_us[1]), 10, 1)
    acks = np.where(is_produce, rng.choice([-1, -1, 1, 0], count), NO_ACKS)
    wait_us = np.where(acks == -1, rng.lognormal(7.5, 0.6, count) * slower, 0).astype(np.int64)
    rows = _rows(at_us, client, api, partitions)
    rows["request_bytes"] += rng.integers(0, 90, count)
    rows["response_bytes"] += rng.integers(0, 60, count)
    rows["response_bytes"][(ending != 0) | (acks == 0)] = 0
    rows["handler_us"] = (rng.lognormal(5.7, 0.8, count) * slower).astype(np.int64)
    rows["wait_us"] = np.where(is_long_poll, _MAX_WAIT_US + rng.integers(0, 2_000, count), wait_us)
    rows["ending"], rows["acks"] = ending, acks
    rows["error_code"] = np.where(is_failed, _NOT_LEADER, 0)
    replicates = [int(each.client_id.split("-")[1]) if each.role == "follower" and each.client_id else -1
                  for each in span.cast.clients]  # fmt: skip
    rows["replica_id"] = np.where(is_fetch, np.array(replicates)[client], -1)
    return Requests(rows, partitions)


def _draw_partitions(rng: np.random.Generator, span: Span, at_us: Numbers, wanted: Numbers) -> Rows:
    """Draw about so many partitions for each request, none twice."""
    request = np.repeat(np.arange(len(wanted)), wanted)
    topic = draw_topics(rng, span.cast, span.broker, len(request), is_first_day=span.is_first_day)
    led = np.array([max(each.partitions // span.brokers, 1) for each in span.cast.topics])
    partition = span.broker + span.brokers * (rng.random(len(request)) * led[topic]).astype(np.int64)
    _, kept = np.unique((request * len(led) + topic) * 1_000 + partition, return_index=True)
    return {"request": request[kept], "topic": topic[kept], "partition": partition[kept]}


def _fill(rng: np.random.Generator, rows: Rows, at_us: Numbers, is_produce: Numbers, failed: Numbers) -> None:
    count = len(at_us)
    records = rng.integers(1, 60, count)
    spread_us = np.where(rng.random(count) < 0.5, 0, rng.integers(0, 900, count) * 1_000)
    # Some producers send old records, or have no clock at all; not to the mirrored topics, which come first.
    is_old = (rng.random(count) < 0.01) & (rows["topic"] > 1)
    base_us = (at_us - rng.integers(0, SECOND_US, count)) // 1_000 * 1_000
    base_us -= np.where(is_old, rng.integers(1, 72, count) * 60 * MINUTE_US, 0)
    top_us = base_us + np.where(is_old, rng.integers(1, 40, count) * 60 * MINUTE_US, spread_us)
    has_times = (rng.random(count) > 0.005) | (rows["topic"] <= 1)
    rows["bytes"] = np.where(failed, 0, records * _RECORD_BYTES + rng.integers(0, 40, count))
    rows["error_code"] = np.where(failed, _NOT_LEADER, 0)
    told = is_produce & ~failed
    rows["records"] = np.where(told, records, -1)
    rows["base_offset"] = np.where(failed, -1, at_us // 1_000)
    rows["last_offset"] = np.where(told, at_us // 1_000 + records - 1, -1)
    rows["base_ts"] = np.where(told & has_times, base_us, -1)
    rows["max_ts"] = np.where(told & has_times, top_us, -1)


def _rows(at_us: Numbers, client: Numbers, api: Numbers, partitions: Rows) -> Rows:
    """Rows of successful requests that took a millisecond each."""
    count = len(at_us)
    taken = np.bincount(partitions["request"], partitions["bytes"], count).astype(np.int64)
    return {
        "ts": at_us,
        "client": client,
        "api": api,
        "connection": np.full(count, -1),
        "request_bytes": 60 + np.where(api == PRODUCE, taken, 0),
        "response_bytes": 40 + np.where(api == FETCH, taken, 0),
        "handler_us": np.full(count, 1_000),
        "wait_us": np.zeros(count, np.int64),
        "ending": np.zeros(count, np.int64),
        "error_code": np.zeros(count, np.int64),
        "acks": np.where(api == PRODUCE, 1, NO_ACKS),
        "replica_id": np.full(count, -1),
        "partitions": np.bincount(partitions["request"], minlength=count),
    }


def feed(span: Span) -> Requests:
    """A producer to the first topic once a minute, so that there is always something to mirror, and to lose."""
    at_us = np.arange(-(-span.first_us // MINUTE_US) * MINUTE_US + 30 * SECOND_US, span.last_us, MINUTE_US)
    base_us = at_us - 2_000
    return produced(at_us, FEED, np.zeros(len(at_us), np.int64), np.full(len(at_us), _FEED_RECORDS), (base_us, base_us))


def produced(
    at_us: Numbers, client: int, topic: Numbers, records: Numbers, times_us: tuple[Numbers, Numbers]
) -> Requests:
    """Requests that produce a batch each to partition 0 of these topics.

    `times_us` are the first and the greatest time of each batch's records.
    """
    count = len(at_us)
    offset = at_us // 1_000
    partitions = {
        "request": np.arange(count),
        "topic": topic,
        "partition": np.zeros(count, np.int64),
        "bytes": records * _RECORD_BYTES,
        "error_code": np.zeros(count, np.int64),
        "records": records,
        "base_offset": offset,
        "last_offset": offset + records - 1,
        "base_ts": times_us[0],
        "max_ts": times_us[1],
    }
    return Requests(_rows(at_us, np.full(count, client), np.full(count, PRODUCE), partitions), partitions)


def mirrored(at_us: Numbers, topic: Numbers, records: Numbers, times_us: tuple[Numbers, Numbers]) -> Requests:
    return produced(at_us, MIRROR, topic, records, times_us)


def asked_for_versions(at_us: Numbers, client: Numbers, connection: Numbers) -> Requests:
    """The ApiVersions request that begins a connection."""
    empty = np.zeros(0, np.int64)
    nothing = produced(empty, FEED, empty, empty, (empty, empty)).partitions
    rows = _rows(at_us, client, np.full(len(at_us), API_VERSIONS), nothing)
    return Requests({**rows, "connection": connection}, nothing)
