"""Converts a block to single events, as dictionaries by the schema's field names, for interactive display. Pure.

Much slower than `tables`, but works without Arrow.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any

from audit_pipeline.contract import COMMON, TIME_MS_MAX, contract
from audit_pipeline.spool.spool import EventBlock, Header

_SPOOL = contract().spool
_TABLES = contract().tables
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FETCH = 1
_NO_ACKS, _NO_REFUSAL, _NONE, _UNKNOWN_ERROR = -128, 255, -1, -32_768
_CLIENT_FIELDS: list[str] = _SPOOL["client_fields"]
_OF_REQUEST = ("listener", "client_ip", "principal", "client_id", "software_name", "software_version", "replica_id")

Event = dict[str, Any]


class _Rows:
    def __init__(self, name: str) -> None:
        fields = _SPOOL[name]
        self._struct = Struct("<" + "".join(code for _, code, _ in fields))
        self._names = [field for field, _, _ in fields]

    @property
    def size(self) -> int:
        return self._struct.size

    def read(self, data: bytes) -> Iterator[dict[str, Any]]:
        return (dict(zip(self._names, row, strict=True)) for row in self._struct.iter_unpack(data))


_REQUEST_ROWS, _PARTITION_ROWS = _Rows("request_row"), _Rows("partition_row")


def events_of(header: Header, block: EventBlock) -> Iterator[tuple[str, Event]]:
    """Yield each event of a block with the name of its table, ordered by number. Partitions follow their request."""
    common = {"cluster_id": header.cluster_id, "broker_id": header.broker_id, "boot_id": header.boot_id}
    requests, partition_rows = _all_rows(block)
    partitions: dict[int, list[dict[str, Any]]] = {}
    for row in _PARTITION_ROWS.read(partition_rows):
        partitions.setdefault(row["number"], []).append(row)
    found: list[tuple[int, str, Event]] = []
    for row in _REQUEST_ROWS.read(requests):
        request = _request(header.api_names, block, row)
        found.append((request["seq"], "request", request))
        for part in partitions.get(row["number"], ()):
            found.append((request["seq"], "partition", _partition(block, part, request)))
    for table, *values in block.others:
        if table not in _TABLES:
            # A later minor version has added it.
            continue
        names = [field.name for field in _TABLES[table].fields[len(COMMON) - 1 :]]
        # Minor versions differ in the number of values: see tables.fitted.
        whole = [*values, *[None] * (len(names) - len(values))][: len(names)]
        found.append((values[0], table, _with_time(dict(zip(names, whole, strict=True)))))
    found.sort(key=lambda event: event[0])
    return ((table, {**common, **event}) for _, table, event in found)


def _all_rows(block: EventBlock) -> tuple[bytes, bytes]:
    """Return the rows of requests and of partitions, including those stored in pairs."""
    size, step = _REQUEST_ROWS.size, _REQUEST_ROWS.size + _PARTITION_ROWS.size
    pairs = [block.pair_rows[at : at + step] for at in range(0, len(block.pair_rows), step)]
    requests = block.request_rows + b"".join(pair[:size] for pair in pairs)
    return requests, block.partition_rows + b"".join(pair[size:] for pair in pairs)


def _request(api_names: Mapping[int, str], block: EventBlock, row: Mapping[str, Any]) -> Event:
    handled_s = row["handled_s"] or row["completed_s"]
    handler_us, total_us = _us(handled_s - row["received_s"]), _us(row["completed_s"] - row["received_s"])
    return {
        "seq": block.first_seq + row["number"],
        "ts": _moment(block.wall_us + _us(row["received_s"] - block.monotonic_s)),
        **dict.fromkeys(_CLIENT_FIELDS),
        **dict(zip(_CLIENT_FIELDS, block.clients[row["client"]], strict=False)),
        "correlation_id": row["correlation_id"],
        "api_key": row["api_key"],
        "api": api_names.get(row["api_key"], str(row["api_key"])),
        "api_version": row["api_version"],
        "request_bytes": row["request_bytes"],
        "response_bytes": row["response_bytes"],
        "handler_us": handler_us,
        "wait_us": total_us - handler_us,
        "total_us": total_us,
        "ending": _SPOOL["endings"][row["ending"]],
        "refusal": None if row["refusal"] == _NO_REFUSAL else block.refusals[row["refusal"]],
        "error_code": None if row["error_code"] == _UNKNOWN_ERROR else row["error_code"],
        "acks": None if row["acks"] == _NO_ACKS else row["acks"],
        "replica_id": _known(row["replica_id"]),
        "partitions": row["partitions"],
    }


def _partition(block: EventBlock, row: Mapping[str, Any], request: Event) -> Event:
    return {
        "seq": request["seq"],
        "ts": request["ts"],
        "api_key": request["api_key"],
        "topic": block.topics[row["topic"]],
        "partition": row["partition"],
        "bytes": row["bytes"],
        **{name: _known(row[name]) for name in ("records", "base_offset", "last_offset")},
        **{name: _producers_time(row[name]) for name in ("base_ts", "max_ts")},
        "error_code": row["error_code"],
        **{name: request[name] for name in _OF_REQUEST},
        "service_us": request["handler_us"] if request["api_key"] == _FETCH else request["total_us"],
    }


def _with_time(event: Event) -> Event:
    event["ts"] = _moment(event["ts"])
    return event


def _known(value: int) -> int | None:
    return None if value == _NONE else value


def _producers_time(ms: int) -> datetime | None:
    return _moment(ms * 1000) if 0 <= ms <= TIME_MS_MAX else None


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
