"""The files of one segment, made from rows of numbers as a lander writes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from audit_pipeline.spool.segment import Footer, SegmentFile, folder_of, packed, segment_name
from audit_pipeline.spool.tables import arrow_schema
from tests.support.audit.audit_weeks.cast import APIS, ENDINGS, FETCH, Cast, Rows
from tests.support.audit.audit_weeks.changing import changes
from tests.support.audit.audit_weeks.connections import ACCEPTED, EVENTS, LIMITED, LIMITS, REASONS
from tests.support.audit.audit_weeks.other_tables import INTERVAL_US, intervals, is_added_up
from tests.support.audit.audit_weeks.requests import NO_ACKS, Requests

Numbers = np.ndarray[Any, Any]
Columns = dict[str, pa.Array]

_TIME: Final = pa.timestamp("us", tz="UTC")
_NEARLY_A_SECOND_US: Final = 900_000
_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap of so many missing events, from that time on."""

    at_us: int
    events: int
    reason: str


@dataclass(slots=True)
class Content:
    """The content of one segment."""

    made: Requests
    connections: Rows
    inventory: Rows
    gaps: list[Gap] = field(default_factory=list)
    is_rollup: bool = False
    registered_brokers: str | None = None
    """None writes files of version 1.0, which lack the columns of version 1.1."""
    shift_us: Numbers | None = None
    """Error of each request's time, in microseconds."""


def tables_of(content: Content, cast: Cast, first_seq: int) -> tuple[dict[str, pa.Table], int]:
    """Tables that have rows, without the columns that identify the boot; and the next event number."""
    made, added = content.made, None
    if content.is_rollup:
        made, added = _split(content.made)
    found: dict[str, Columns] = {}
    ended_us = made.requests["ts"] + made.requests["handler_us"] + made.requests["wait_us"]
    histograms, rollup = None, None
    if added is not None:
        rollup, histograms = intervals(added, len(cast.topics))
    of_interval = np.zeros(0, np.int64) if rollup is None else rollup["interval"]
    first_row = np.unique(of_interval, return_index=True)[1]
    widths = _widths(added)
    gaps = content.gaps
    # Brokers of version 1.0 write no changes.
    changed = np.flatnonzero(~is_added_up(made.requests)) if content.registered_brokers is not None else _NONE
    times = {
        "request": ended_us,
        "change": ended_us[changed],
        "connection": content.connections["ts"],
        "inventory": content.inventory["ts"],
        "rollup": np.zeros(0, np.int64) if rollup is None else rollup["ts"][first_row] + INTERVAL_US,
        "gap": np.array([gap.at_us for gap in gaps], np.int64),
    }
    numbers, next_seq = _numbered(
        times, {"rollup": widths, "gap": np.array([gap.events for gap in gaps], np.int64)}, first_seq
    )
    ts = made.requests["ts"] if content.shift_us is None else made.requests["ts"] + content.shift_us
    seq = {name: last for name, (_, last) in numbers.items()}
    found["request"] = _request({**made.requests, "ts": ts}, cast, seq["request"])
    found["change"] = changes(made.requests, changed, ts, cast, seq["change"])
    found["partition"] = _partition(made, ts, cast, seq["request"], is_told=content.registered_brokers is not None)
    found["connection"] = _connection(content.connections, cast, seq["connection"])
    found["inventory"] = _inventory(content.inventory, cast, seq["inventory"], content.registered_brokers)
    if rollup is not None:
        first, last = (each[of_interval] for each in numbers["rollup"])
        found["rollup"] = _rollup(rollup, histograms, cast, first, last)
    if gaps:
        found["gap"] = _gap(gaps, *numbers["gap"])
    return {name: _sorted(name, columns) for name, columns in found.items() if len(columns["seq"])}, next_seq


def _split(made: Requests) -> tuple[Requests, Requests]:
    """Requests that are recorded one by one, and those that are aggregated."""
    added = is_added_up(made.requests)
    places = np.cumsum(added) - 1
    parts = made.partitions
    kept = added[parts["request"]]
    inside = {name: values[kept] for name, values in parts.items()}
    inside["request"] = places[inside["request"]]
    alone = {name: values[:0] for name, values in parts.items()}
    return (
        Requests({name: values[~added] for name, values in made.requests.items()}, alone),
        Requests({name: values[added] for name, values in made.requests.items()}, inside),
    )


def _widths(added: Requests | None) -> Numbers:
    """Number of requests in each interval."""
    if added is None:
        return np.zeros(0, np.int64)
    return np.unique(added.requests["ts"] // INTERVAL_US, return_counts=True)[1]


def _numbered(
    times: Mapping[str, Numbers], widths: Mapping[str, Numbers], first_seq: int
) -> tuple[dict[str, tuple[Numbers, Numbers]], int]:
    """First and last number of each event, in the order of their times; and the next event number."""
    wide = np.concatenate([widths.get(name, np.ones(len(at), np.int64)) for name, at in times.items()])
    order = np.argsort(np.concatenate(list(times.values())), kind="stable")
    last = np.empty(len(wide), np.int64)
    last[order] = first_seq - 1 + np.cumsum(wide[order])
    begins = np.cumsum([0] + [len(at) for at in times.values()])
    found = {
        name: ((last - wide + 1)[begin:end], last[begin:end])
        for name, begin, end in zip(times, begins[:-1], begins[1:], strict=True)
    }
    return found, first_seq + int(wide.sum())


def _request(rows: Rows, cast: Cast, seq: Numbers) -> Columns:
    acks, replica = rows["acks"], rows["replica_id"]
    refusals = pa.array([None, "too large", None, None], pa.string())
    return {
        "seq": pa.array(seq),
        "ts": _time(rows["ts"]),
        "connection_id": _known(rows["connection"], pa.int64()),
        **cast.columns(rows["client"]),
        "client_port": pa.array(1_024 + rows["connection"] % 60_000, pa.int32()),
        "correlation_id": pa.array(seq % 1_000_000, pa.int32()),
        "api_key": pa.array(rows["api"], pa.int16()),
        "api": _named(rows["api"]),
        "api_version": pa.array(np.full(len(seq), 9), pa.int16()),
        **{name: pa.array(rows[name]) for name in ("request_bytes", "response_bytes", "handler_us", "wait_us")},
        "total_us": pa.array(rows["handler_us"] + rows["wait_us"]),
        "ending": pa.array(ENDINGS).take(pa.array(rows["ending"])),
        "refusal": refusals.take(pa.array(rows["ending"])),
        "error_code": pa.array(rows["error_code"], pa.int16()),
        "acks": pa.array(acks.astype(np.int16), mask=acks == NO_ACKS),
        "replica_id": _known(replica, pa.int32()),
        "partitions": pa.array(rows["partitions"], pa.int32()),
    }


def _partition(made: Requests, ts: Numbers, cast: Cast, seq: Numbers, *, is_told: bool) -> Columns:
    rows = made.partitions
    of = rows["request"]
    return {
        "seq": pa.array(seq[of]),
        "ts": _time(ts[of]),
        "api_key": pa.array(made.requests["api"][of], pa.int16()),
        "topic": cast.topic_names(rows["topic"]),
        "partition": pa.array(rows["partition"], pa.int32()),
        "bytes": pa.array(rows["bytes"]),
        "records": _known(rows["records"], pa.int32()),
        "base_offset": _known(rows["base_offset"], pa.int64()),
        "last_offset": _known(rows["last_offset"], pa.int64()),
        "base_ts": _known(rows["base_ts"], pa.int64()).cast(_TIME),
        "max_ts": _known(rows["max_ts"], pa.int64()).cast(_TIME),
        "error_code": pa.array(rows["error_code"], pa.int16()),
        **(_of_request(made, of, cast) if is_told else {}),
    }


def _of_request(made: Requests, of: Numbers, cast: Cast) -> Columns:
    """Columns of version 1.1, which repeat the request."""
    rows = {name: values[of] for name, values in made.requests.items()}
    return {
        **cast.columns(rows["client"]),
        "replica_id": _known(rows["replica_id"], pa.int32()),
        "service_us": pa.array(rows["handler_us"] + np.where(rows["api"] == FETCH, 0, rows["wait_us"])),
    }


def _connection(rows: Rows, cast: Cast, seq: Numbers) -> Columns:
    event = rows["event"]
    who = cast.columns(rows["client"])
    # A client is not identified before its first request.
    new = event == ACCEPTED
    for name in ("client_id", "software_name", "software_version"):
        who[name] = pa.array(np.where(new, None, who[name].to_numpy(zero_copy_only=False)), pa.string())
    who["principal"] = pa.array(
        np.where(new, "User:ANONYMOUS", who["principal"].to_numpy(zero_copy_only=False)), pa.string()
    )
    closed = event == EVENTS.index("closed")
    return {
        "seq": pa.array(seq),
        "ts": _time(rows["ts"]),
        "connection_id": _known(rows["connection"], pa.int64()),
        **who,
        "client_port": pa.array(1_024 + rows["connection"] % 60_000, pa.int32()),
        "event": pa.array(EVENTS).take(pa.array(event)),
        "reason": pa.array([*REASONS, None], pa.string()).take(pa.array(rows["reason"] % (len(REASONS) + 1))),
        "listener_rate": _known(rows["listener_rate"], pa.int64()),
        **{
            name: pa.array([*values, None], kind).take(pa.array(rows["reason"] % (len(REASONS) + 1)))
            for name, (values, kind) in LIMITS.items()
        },
        "held_us": pa.array(np.full(len(seq), _NEARLY_A_SECOND_US), mask=event != LIMITED),
        "duration_us": pa.array(np.full(len(seq), _NEARLY_A_SECOND_US), mask=~closed),
        "requests": pa.array(np.ones(len(seq), np.int64), mask=~closed),
    }


def _inventory(rows: Rows, cast: Cast, seq: Numbers, registered_brokers: str | None) -> Columns:
    added = {} if registered_brokers is None else {"registered_brokers": pa.repeat(registered_brokers, len(seq))}
    return {
        **added,
        "seq": pa.array(seq),
        "ts": _time(rows["ts"]),
        "topic": cast.topic_names(rows["topic"]),
        "partition": pa.array(rows["partition"], pa.int32()),
        **{name: pa.array(rows[name]) for name in ("bytes", "log_start_offset", "log_end_offset", "is_leader")},
    }


def _rollup(rows: Rows, histograms: pa.Array, cast: Cast, first: Numbers, last: Numbers) -> Columns:
    topics = pa.array([*(each.name for each in cast.topics), None], pa.string())
    sums = ("requests", "errors", "request_bytes", "response_bytes", "records", "total_us_sum", "total_us_max")
    return {
        "seq": pa.array(last),
        "first_seq": pa.array(first),
        "ts": _time(rows["ts"]),
        "interval_us": pa.array(np.full(len(last), INTERVAL_US)),
        **cast.columns(rows["client"]),
        "api_key": pa.array(rows["api"], pa.int16()),
        "api": _named(rows["api"]),
        "topic": topics.take(pa.array(np.where(rows["topic"] < 0, len(cast.topics), rows["topic"]))),
        **{name: pa.array(rows[name]) for name in sums},
        "latency": histograms,
    }


def _gap(gaps: list[Gap], first: Numbers, last: Numbers) -> Columns:
    return {
        "seq": pa.array(last),
        "first_seq": pa.array(first),
        "ts": _time(np.array([gap.at_us for gap in gaps])),
        "events": pa.array([gap.events for gap in gaps], pa.int64()),
        "reason": pa.array([gap.reason for gap in gaps]),
        "detail": pa.nulls(len(gaps), pa.string()),
    }


def _sorted(table: str, columns: Columns) -> pa.Table:
    """The table sorted by event number."""
    names = [name for name in arrow_schema(table).names if name in columns]
    made = pa.table([columns[name] for name in names], names)
    seq = made["seq"].to_numpy()
    return made if (np.diff(seq) >= 0).all() else made.take(pa.array(np.argsort(seq, kind="stable")))


def _time(us: Numbers) -> pa.Array:
    return pa.array(us, pa.int64()).cast(_TIME)


def _known(values: Numbers, kind: pa.DataType) -> pa.Array:
    return pa.array(values.astype(kind.to_pandas_dtype()), mask=values == -1)


def _named(api: Numbers) -> pa.Array:
    names = [APIS.get(key) for key in range(max(APIS) + 1)]
    return pa.array(names, pa.string()).take(pa.array(api))


def files_of(tables: Mapping[str, pa.Table], footer: Footer) -> list[SegmentFile]:
    footer = replace(footer, rows={name: table.num_rows for name, table in tables.items()})
    low, high = footer.segments
    number = f"{low:08d}" if low == high else f"{low:08d}-{high:08d}"
    name = segment_name(footer.cluster_id, footer.broker_id, footer.boot_id, number)
    return [
        SegmentFile(
            f"{folder_of(table, footer.opened_us)}/{name}", footer, packed(_with_boot(table, rows, footer), footer)
        )
        for table, rows in tables.items()
    ]


def _with_boot(table: str, rows: pa.Table, footer: Footer) -> pa.Table:
    schema = arrow_schema(table)
    told = {
        "cluster_id": pa.repeat(footer.cluster_id, len(rows)),
        "broker_id": pa.repeat(pa.scalar(footer.broker_id, pa.int32()), len(rows)),
        "boot_id": pa.repeat(footer.boot_id, len(rows)),
    }
    for name in set(schema.names) - told.keys() - set(rows.column_names):
        schema = schema.remove(schema.get_field_index(name))
    columns = [told[name] if name in told else rows[name].combine_chunks() for name in schema.names]
    made = pa.Table.from_arrays(columns, schema=schema)
    # The column of a later schema version is arbitrary.
    return made if footer.schema_version == 1 else made.append_column("zone", pa.repeat("a", len(rows)))
