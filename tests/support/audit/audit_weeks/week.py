"""Weeks of invented landed audit logs, with the truth of what they contain.

    truth = write_week(Week(days=7, events=60_000, seed=1), folder)

Numbers are drawn by numpy a segment at a time. A million events take a few seconds, and fifty million need no more
memory than one segment. The same Week always gives the same files, byte by byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import numpy as np

from audit_pipeline.results.settings import Mirror
from audit_pipeline.spool.segment import Footer, SegmentFile
from tests.support.audit.audit_weeks.cast import FETCH, MIRRORED, PRODUCE, STORMY, Cast, make_cast
from tests.support.audit.audit_weeks.connections import LIMITS, RATE, Storm, connection_ids, usual
from tests.support.audit.audit_weeks.mirroring import BUCKET_US, Records, batches, records_of
from tests.support.audit.audit_weeks.other_tables import HOUR_US, full_hours, inventory
from tests.support.audit.audit_weeks.requests import (
    DAY_US,
    MINUTE_US,
    SECOND_US,
    Requests,
    Span,
    concatenated,
    draw_requests,
    feed,
    joined,
)
from tests.support.audit.audit_weeks.segments import Content, Gap, files_of, tables_of
from tests.support.audit.audit_weeks.spoiling import Landed, Plan, spoiled
from tests.support.audit.audit_weeks.truth import StormTruth, Truth

PREFIX: Final = "eu."
SPOILS: Final = ("skewed", "torn", "flipped", "version", "hole", "late", "copied", "merged", "gap", "future")
"""The faults of a week:

- skewed: rows ten days back and an hour ahead.
- torn: a truncated file.
- flipped: a changed byte of a page.
- version: a segment of schema version 2.
- hole: a segment that was never landed.
- late: a segment that arrives last.
- copied: the same files under another hour as well.
- merged: a file made of two, beside one of them.
- gap: events that a full queue has dropped.
- future: a segment of a broker whose clock is three days ahead.
"""


@dataclass(frozen=True, slots=True)
class Week:
    """A week to invent. `events` is the approximate number of requests, without connections and inventory.

    The second cluster mirrors two topics of the first, and its last broker records at level rollup. Brokers run for the
    first `hours` of each day, and begin `segments` files in them.
    """

    days: int = 7
    clusters: int = 2
    brokers: int = 2
    events: int = 60_000
    seed: int = 1
    hours: int = 24
    segments: int = 2
    topics: int = 8
    principals: int = 16
    storm: int = 230
    """Connections in ten seconds of the first storm; 0 for no storms."""
    inventory_hours: int = 1
    spoils: tuple[str, ...] = SPOILS
    is_mixed: bool = True
    """Whether the second cluster writes files of version 1.0."""
    first_day: date = date(2026, 11, 9)

    @property
    def first_us(self) -> int:
        return int(datetime(*self.first_day.timetuple()[:3], tzinfo=UTC).timestamp()) * SECOND_US

    @property
    def last_us(self) -> int:
        return self.first_us + (self.days - 1) * DAY_US + self.day_us

    @property
    def day_us(self) -> int:
        """Time that brokers run on a day, in microseconds."""
        return self.hours * HOUR_US

    @property
    def middle_us(self) -> int:
        """Beginning of the day in the middle."""
        return self.first_us + (self.days // 2) * DAY_US

    @property
    def now_us(self) -> int:
        """Time at which all files have arrived."""
        return self.last_us + 10 * MINUTE_US

    @property
    def mirrors(self) -> tuple[Mirror, ...]:
        return (Mirror("eu", cluster_id(0), cluster_id(1), PREFIX),) if self.clusters > 1 else ()

    @property
    def lost(self) -> tuple[str, int]:
        """Topic and bucket in which the mirror leaves out all records more than a minute from the bucket's ends."""
        return MIRRORED[0], self.middle_us + self.day_us * 31 // 72 // BUCKET_US * BUCKET_US

    @property
    def mirrored_until_us(self) -> int:
        """Time from which records are not mirrored yet."""
        return self.last_us - 3 * BUCKET_US - 3 * MINUTE_US


def cluster_id(number: int) -> str:
    return ("_Zq3src", "4kMirror", "Lone")[number % 3] + (str(number) if number > 2 else "")


def write_week(week: Week, folder: Path) -> Truth:
    truth = Truth(week.now_us)
    for file in landed(week, truth):
        put(file, folder)
    return truth


def put(file: Landed, folder: Path) -> None:
    """Write a file without waiting for the disk, which would take longer than all the rest."""
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)


def arrivals(week: Week) -> tuple[list[list[Landed]], Truth]:
    """All files in the order in which they arrive, by day; late files are last."""
    truth = Truth(week.now_us)
    batches_: list[list[Landed]] = [[] for _ in range(week.days + 1)]
    for file in landed(week, truth):
        batches_[file.batch].append(file)
    return batches_, truth


@dataclass(slots=True)
class _Broker:
    """State of a broker that continues from segment to segment."""

    boot_id: str = ""
    next_seq: int = 1
    number: int = 0


@dataclass(slots=True)
class _Made:
    """The casts and counters of a week in progress."""

    week: Week
    truth: Truth
    casts: list[Cast]
    storms: list[Storm]
    brokers: dict[tuple[int, int], _Broker] = field(default_factory=dict)


def landed(week: Week, truth: Truth) -> Iterator[Landed]:
    """Files one by one, with the day on which they arrive; `truth` is complete at the end."""
    rng = np.random.default_rng(week.seed)
    casts = []
    for cluster in range(week.clusters):
        prefix = PREFIX if cluster == 1 else ""
        casts.append(make_cast(rng, week.principals, week.topics, week.brokers, prefix))
        truth.never_used[cluster_id(cluster)] = [each.name for each in casts[-1].topics if each.use == "never"]
    made = _Made(week, truth, casts, _storms(week))
    truth.storms += [truth for storm in made.storms for truth in _storm_truths(storm, casts[storm.cluster])]
    plan = Plan(week.spoils, week.days * week.segments, week.clusters, week.brokers)
    held: dict[tuple[int, int], list[SegmentFile]] = {}
    for number in range(week.days * week.segments):
        records: Records | None = None
        for cluster in range(week.clusters):
            for broker in range(week.brokers):
                spoil = plan.spoil_of(cluster, broker, number)
                content, footer, found = _segment(made, cluster, broker, number, spoil, records)
                if (cluster, broker) == (0, 0):
                    records = found
                tables, seq = tables_of(content, casts[cluster], footer.first_seq)
                made.brokers[cluster, broker].next_seq = seq
                files = files_of(tables, _closed(footer, seq))
                _count(made, cluster, broker, content, spoil, seq - footer.first_seq)
                yield from spoiled(files, spoil, number // week.segments, held, truth)


def _closed(footer: Footer, next_seq: int) -> Footer:
    return replace(footer, last_seq=next_seq - 1)


def _storms(week: Week) -> list[Storm]:
    if not week.storm:
        return []
    held, refused = max(week.storm // 6, 1), max(week.storm // 10, 1)
    found = [Storm(0, 0, week.middle_us + week.day_us * 7 // 12 + 20 * SECOND_US, 18, week.storm, held, refused)]
    if week.days > 1 and week.hours == 24:
        midnight = week.first_us + DAY_US
        found.append(Storm(0, 0, midnight - 5 * 10 * SECOND_US, 12, week.storm // 2, held // 2, refused // 2))
    return found


def _storm_truths(storm: Storm, cast: Cast) -> Iterator[StormTruth]:
    who = cast.clients[STORMY]
    for rate, accepted, limited, refused in storm.episodes():
        all_us = np.concatenate([accepted, limited, refused])
        yield StormTruth(
            cluster_id(storm.cluster),
            storm.broker,
            who.listener,
            int(all_us.min()),
            int(all_us.max()),
            who.client_ip,
            who.principal,
            str(who.client_id),
            f"{who.software_name} {who.software_version}",
            rate,
            str(LIMITS["limit_quota"][0][RATE]),
            len(accepted),
            len(limited),
            len(refused),
        )


def _segment(
    made: _Made, cluster: int, broker: int, number: int, spoil: str, source: Records | None
) -> tuple[Content, Footer, Records | None]:
    """The events of one segment, its footer as far as it is known, and the records to be mirrored."""
    week, state = made.week, made.brokers.setdefault((cluster, broker), _Broker())
    half, last = week.days * week.segments // 2, week.days * week.segments - 1
    # The second broker restarts in the middle.
    has_two_boots = (cluster, broker) == (0, 1)
    is_first = number == 0 or (has_two_boots and number == half)
    is_last = number == last or (has_two_boots and number == half - 1)
    storms = [storm for storm in made.storms if (storm.cluster, storm.broker) == (cluster, broker)]
    span = _span(made, cluster, broker, number, storms)
    if spoil == "future":
        span = replace(span, first_us=span.first_us + 3 * DAY_US, last_us=span.last_us + 3 * DAY_US)
    if is_first:
        state.boot_id, state.next_seq, state.number = f"{span.first_us // 1_000:012x}{week.seed % 0xFFFFFF:06x}", 1, 0
    requests = _traffic(made, span, cluster, number, source)
    requests.requests["connection"] = connection_ids(requests.requests["client"], state.number)
    connections = [usual(span, state.number, is_first=is_first, is_last=is_last)]
    for storm in storms:
        found, asked = storm.within(span)
        connections.append(found)
        requests = joined([requests, asked])
    at_us = full_hours(span, week.inventory_hours)
    content = Content(
        requests,
        concatenated(connections),
        inventory(span, np.append(span.first_us + SECOND_US, at_us) if is_first else at_us),
        is_rollup=cluster == 1 and broker == week.brokers - 1 and week.brokers > 1,
        registered_brokers=",".join(map(str, range(week.brokers))) if cluster == 0 or not week.is_mixed else None,
    )
    if spoil == "gap":
        content.gaps.append(Gap((span.first_us + span.last_us) // 2, 37, "queue full"))
    if spoil == "skewed":
        content.shift_us = _skew(len(requests.requests["ts"]))
    footer = Footer(
        schema_version=2 if spoil == "version" else 1,
        cluster_id=cluster_id(cluster),
        broker_id=broker,
        boot_id=state.boot_id,
        segments=(state.number, state.number),
        first_seq=state.next_seq,
        last_seq=0,
        opened_us=span.first_us - 2 * SECOND_US,
        closed_us=span.last_us + 2 * SECOND_US,
        end="stopped" if is_last else "next",
        rows={},
    )
    state.number += 1
    return content, footer, records_of(requests) if (cluster, broker) == (0, 0) else None


def _span(made: _Made, cluster: int, broker: int, number: int, storms: list[Storm]) -> Span:
    week = made.week
    length_us = week.day_us // week.segments
    day, place = divmod(number, week.segments)
    # Brokers begin their files at different times.
    first_us = week.first_us + day * DAY_US + place * length_us + (3 + 7 * broker) * SECOND_US
    last_us = first_us + length_us
    slow = [(storm.started_us, storm.ended_us) for storm in storms if storm.ended_us > first_us]
    return Span(
        made.casts[cluster],
        broker,
        week.brokers,
        first_us,
        last_us,
        is_first_day=number < week.segments,
        slow_us=min(slow, default=(0, 0)),
    )


def _traffic(made: _Made, span: Span, cluster: int, number: int, source: Records | None) -> Requests:
    week = made.week
    rng = np.random.default_rng((week.seed, cluster, span.broker, number))
    mean = week.events / (week.clusters * week.brokers * week.days * week.segments)
    parts = [draw_requests(rng, span, max(int(rng.poisson(mean)), 1))]
    if (cluster, span.broker) == (0, 0):
        parts.append(feed(span))
    if (cluster, span.broker) == (1, 0) and source is not None:
        parts.append(batches(_not_lost(made, source), span.last_us))
    return joined(parts)


def _skew(count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    shift_us = np.zeros(count, np.int64)
    shift_us[: count // 10 + 1] = -10 * DAY_US
    # Some beyond the end of the segment, wherever in it they were.
    shift_us[-3:] = DAY_US
    return shift_us


def _not_lost(made: _Made, source: Records) -> Records:
    """The records that the mirror reaches; the others are counted in the truth."""
    truth, (topic, bucket_us) = made.truth, made.week.lost
    truth.mirrored_records.update(source.by_bucket())
    lagging = source.at_us >= made.week.mirrored_until_us
    inside = (source.at_us >= bucket_us + MINUTE_US) & (source.at_us < bucket_us + BUCKET_US - MINUTE_US)
    lost = inside & (source.topic == MIRRORED.index(topic))
    truth.lagging_records.update(source.where(lagging).by_bucket())
    truth.lost_records.update(source.where(lost).by_bucket())
    return source.where(~lagging & ~lost)


def _count(made: _Made, cluster: int, broker: int, content: Content, spoil: str, numbers: int) -> None:
    """Count in the truth what readers can find of a segment."""
    truth, name = made.truth, cluster_id(cluster)
    truth.events += numbers
    truth.missing[name, broker] += sum(gap.events for gap in content.gaps)
    if spoil == "hole":
        truth.holes[name, broker] += numbers
    if spoil in ("version", "future", "hole"):
        return
    rows, parts, cast = content.made.requests, content.made.partitions, made.casts[cluster]
    possible = np.ones(len(rows["ts"]), bool) if content.shift_us is None else content.shift_us == 0
    if spoil != "flipped":
        truth.requests[name] += int(possible.sum())
    if spoil == "torn":
        return
    of = parts["request"]
    kept = possible[of]
    # Partitions of version 1.1 tell their clients without the requests.
    is_known = spoil != "flipped" or content.registered_brokers is not None
    api, client = rows["api"][of][kept], rows["client"][of][kept]
    replicates = (rows["replica_id"][of][kept] >= 0) & (is_known and not content.is_rollup)
    size, topic = parts["bytes"][kept], parts["topic"][kept]
    truth.replicated[name] += int(size[replicates].sum())
    for key, by, to in (
        (PRODUCE, truth.produced_by, truth.produced_to),
        (FETCH, truth.fetched_by, truth.fetched_from),
    ):
        chosen = (api == key) & ~replicates
        sums = np.bincount(client[chosen], size[chosen], len(cast.clients))
        for each, total in zip(cast.clients, sums, strict=True):
            by[name, each.principal if is_known else "(unknown)"] += int(total)
        for of_topic, total in zip(
            cast.topics, np.bincount(topic[chosen], size[chosen], len(cast.topics)), strict=True
        ):
            to[name, of_topic.name] += int(total)
