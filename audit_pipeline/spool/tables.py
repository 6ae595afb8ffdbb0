"""Converts the blocks of a spool to Arrow tables with the schema's types, and finds missing numbers. Pure.

The result depends on the spool only, so that landing it again gives the same files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.contract import COMMON, TIME_MS_MAX, Field, contract
from audit_pipeline.spool.spool import EventBlock, SpoolContent

_CONTRACT = contract()
_SPOOL = _CONTRACT.spool
_ENDINGS: list[str] = _SPOOL["endings"]
_CLIENT_FIELDS: list[str] = _SPOOL["client_fields"]
_FETCH = 1
_NO_ACKS, _NO_REFUSAL, _NONE, _UNKNOWN_ERROR = -128, 255, -1, -32_768
_CLIENT_SEPARATE = {"connection_id", "client_port"}
_CLIENT_OF_PARTITION = ("listener", "client_ip", "principal", "client_id", "software_name", "software_version")

_TYPES: Mapping[str, pa.DataType] = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "timestamp_us": pa.timestamp("us", tz="UTC"),
    "map<int16,int64>": pa.map_(pa.int16(), pa.int64()),
}

Columns = dict[str, pa.Array]


def _row_type(name: str) -> np.dtype[Any]:
    return np.dtype([(field, "<" + code) for field, code, _ in _SPOOL[name]])


_REQUEST_ROW, _PARTITION_ROW = _row_type("request_row"), _row_type("partition_row")
_PAIR_ROW = np.dtype([("request", _REQUEST_ROW), ("partition", _PARTITION_ROW)])


@cache
def arrow_schema(table: str) -> pa.Schema:
    return schema_of(_CONTRACT.tables[table].fields)


def unknown_columns(schema: pa.Schema, table: str) -> list[str]:
    """Return the columns of a file that this version does not know: a later minor version has added them."""
    known = set(arrow_schema(table).names)
    return [name for name in schema.names if name not in known]


def is_of_table(schema: pa.Schema, table: str) -> bool:
    """Return whether a file has these columns of a table of this version.

    A nullable column of the table may be absent. A column that this version does not know must be nullable.
    """
    if len(set(schema.names)) < len(schema.names):
        return False
    there = {field.name: field for field in schema}
    for known in arrow_schema(table):
        found = there.pop(known.name, None)
        if found is None and known.nullable:
            continue
        if found is None or found.type != known.type or (found.nullable and not known.nullable):
            return False
    return all(field.nullable for field in there.values())


def with_known_columns(rows: pa.Table, table: str) -> pa.Table:
    """Return rows of a segment file with exactly the columns of the table `table`, null where the file lacks one.

    `is_of_table` must be true of the file.
    """
    schema = arrow_schema(table)
    if rows.schema.names == schema.names:
        return rows
    columns = [
        rows[field.name] if field.name in rows.schema.names else pa.nulls(len(rows), field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def schema_of(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([pa.field(field.name, _TYPES[field.type], nullable=field.nullable) for field in fields])


def tables_of(content: SpoolContent, gaps: Sequence["Gap"] = ()) -> dict[str, pa.Table]:
    """Return a spool's rows as a table for each kind of event, by name; `gaps` are added to the rows of the spool."""
    header, blocks = content.header, content.blocks
    requests, partitions = _rows(blocks, "request"), _rows(blocks, "partition")
    found = {
        "request": _requests(blocks, requests, header.api_names),
        "partition": _partitions(blocks, partitions, requests),
        **_others(blocks, gaps, header.api_names),
    }
    common: tuple[str | int, ...] = (header.cluster_id, header.broker_id, header.boot_id)
    return {name: _table(name, columns, common) for name, columns in sorted(found.items()) if len(columns["seq"])}


def _table(name: str, columns: Columns, common: tuple[str | int, ...]) -> pa.Table:
    schema = arrow_schema(name)
    rows = len(columns["seq"])
    for column, value in zip(COMMON[:-1], common, strict=True):
        columns[column] = _same(value, rows, schema.field(column).type)
    # Strings stay dictionary-encoded, which is what is written: the type in the file is the schema's.
    arrays = [columns[field.name] for field in schema]
    fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _same(value: str | int, rows: int, kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], kind))
    return pa.array(np.full(rows, value), kind)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of all blocks ordered by their numbers; `block` is the index of each row's block."""

    rows: np.ndarray[Any, Any]
    block: np.ndarray[Any, Any]
    seq: np.ndarray[Any, Any]


def _rows(blocks: Sequence[EventBlock], name: str) -> _Rows:
    """Return the rows of requests or of partitions, both single and in pairs."""
    kind = _REQUEST_ROW if name == "request" else _PARTITION_ROW
    single = [block.request_rows if name == "request" else block.partition_rows for block in blocks]
    paired = [block.pair_rows for block in blocks]
    rows = np.concatenate([np.frombuffer(b"".join(single), kind), np.frombuffer(b"".join(paired), _PAIR_ROW)[name]])
    block = np.concatenate([_blocks(single, kind), _blocks(paired, _PAIR_ROW)])
    first = np.array([block.first_seq for block in blocks], np.int64)
    seq = first[block] + rows["number"] if len(rows) else np.zeros(0, np.int64)
    order = np.argsort(seq, kind="stable")
    return _Rows(rows[order], block[order], seq[order])


def _blocks(parts: Sequence[bytes], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.repeat(np.arange(len(parts)), [len(part) // kind.itemsize for part in parts])


def _requests(blocks: Sequence[EventBlock], found: _Rows, api_names: Mapping[int, str]) -> Columns:
    rows, block = found.rows, found.block
    handled = np.where(rows["handled_s"] > 0, rows["handled_s"], rows["completed_s"])
    handler_us, total_us = _us(handled - rows["received_s"]), _us(rows["completed_s"] - rows["received_s"])
    return {
        "seq": pa.array(found.seq),
        "ts": _times(blocks, block, rows["received_s"]),
        **_client_columns(_places([block.clients for block in blocks], block, rows["client"])),
        **{name: pa.array(np.ascontiguousarray(rows[name])) for name in ("correlation_id", "api_key", "api_version")},
        "api": _named(rows["api_key"], api_names),
        "request_bytes": pa.array(rows["request_bytes"].astype(np.int64)),
        "response_bytes": pa.array(rows["response_bytes"].astype(np.int64)),
        "handler_us": pa.array(handler_us),
        "wait_us": pa.array(total_us - handler_us),
        "total_us": pa.array(total_us),
        "ending": pa.DictionaryArray.from_arrays(pa.array(rows["ending"].astype(np.int32)), pa.array(_ENDINGS)),
        "refusal": _refusals(blocks, block, rows["refusal"]),
        "error_code": pa.array(np.ascontiguousarray(rows["error_code"]), mask=rows["error_code"] == _UNKNOWN_ERROR),
        "acks": pa.array(rows["acks"].astype(np.int16), mask=rows["acks"] == _NO_ACKS),
        "replica_id": _known(rows["replica_id"]),
        "partitions": pa.array(rows["partitions"].astype(np.int32)),
    }


def _partitions(blocks: Sequence[EventBlock], found: _Rows, requests: _Rows) -> Columns:
    rows, block = found.rows, found.block
    request = np.searchsorted(requests.seq, found.seq)
    asked = requests.rows[request]
    topics = _places([block.topics for block in blocks], block, rows["topic"])
    clients, place = _places([block.clients for block in blocks], requests.block[request], asked["client"])
    client = _client_columns((clients, place))
    return {
        "seq": pa.array(found.seq),
        "ts": _times(blocks, block, asked["received_s"]),
        "api_key": pa.array(np.ascontiguousarray(asked["api_key"])),
        "topic": _strings(*topics),
        "partition": pa.array(np.ascontiguousarray(rows["partition"])),
        "bytes": pa.array(np.ascontiguousarray(rows["bytes"])),
        **{name: _known(rows[name]) for name in ("records", "base_offset", "last_offset")},
        **{name: _producers_time(rows[name]) for name in ("base_ts", "max_ts")},
        "error_code": pa.array(np.ascontiguousarray(rows["error_code"])),
        **{name: client[name] for name in _CLIENT_OF_PARTITION},
        "replica_id": _known(asked["replica_id"]),
        "service_us": pa.array(_service_us(asked)),
    }


def _service_us(requests: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the time of each request; a Fetch may wait for data for any time, which does not count."""
    handled_s = np.where(requests["handled_s"] > 0, requests["handled_s"], requests["completed_s"])
    until_s = np.where(requests["api_key"] == _FETCH, handled_s, requests["completed_s"])
    return _us(until_s - requests["received_s"])


def _times(blocks: Sequence[EventBlock], block: np.ndarray[Any, Any], at_s: np.ndarray[Any, Any]) -> pa.Array:
    wall_us = np.array([block.wall_us for block in blocks], np.int64)
    monotonic_s = np.array([block.monotonic_s for block in blocks], np.float64)
    if not len(block):
        return pa.array([], _TYPES["timestamp_us"])
    return pa.array(wall_us[block] + _us(at_s - monotonic_s[block])).cast(_TYPES["timestamp_us"])


def _us(seconds: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.rint(seconds * 1e6).astype(np.int64)


def _known(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return the values, None for -1."""
    return pa.array(np.ascontiguousarray(values), mask=values == _NONE)


def _producers_time(ms: np.ndarray[Any, Any]) -> pa.Array:
    is_none = (ms < 0) | (ms > TIME_MS_MAX)
    return pa.array(np.where(is_none, 0, ms) * 1000, mask=is_none).cast(_TYPES["timestamp_us"])


def _places(
    lists: Sequence[Sequence[Any]], block: np.ndarray[Any, Any], place: np.ndarray[Any, Any]
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Return the distinct items of the blocks' lists, and the index of each row's item."""
    known: dict[Any, int] = {}
    moved: list[int] = []
    begins = [0]
    for items in lists:
        moved += [known.setdefault(item if isinstance(item, str) else tuple(item), len(known)) for item in items]
        begins.append(len(moved))
    if not len(block):
        return [], np.zeros(0, np.int32)
    return list(known), np.array(moved, np.int32)[np.array(begins)[block] + place]


def _client_columns(places: tuple[list[Any], np.ndarray[Any, Any]]) -> Columns:
    clients, place = places
    columns: Columns = {}
    for number, name in enumerate(_CLIENT_FIELDS):
        # Earlier minor versions have fewer fields, and clients outside of groups have no group.
        values = [client[number] if number < len(client) else None for client in clients]
        if name in _CLIENT_SEPARATE:
            kind = pa.int64() if name == "connection_id" else pa.int32()
            columns[name] = pa.array(values, kind).take(pa.array(place))
        else:
            known: dict[str, int] = {}
            moved = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
            columns[name] = _strings(list(known), np.array(moved, np.int32)[place] if len(place) else place)
    return columns


def _strings(values: Sequence[str], place: np.ndarray[Any, Any]) -> pa.Array:
    """Return a dictionary array, with None for negative indexes."""
    return pa.DictionaryArray.from_arrays(pa.array(place, mask=place < 0), pa.array(values, pa.string()))


def _named(keys: np.ndarray[Any, Any], names: Mapping[int, str]) -> pa.Array:
    distinct, place = np.unique(keys, return_inverse=True)
    return _strings([names.get(int(key), str(key)) for key in distinct], place.astype(np.int32))


def _refusals(blocks: Sequence[EventBlock], block: np.ndarray[Any, Any], place: np.ndarray[Any, Any]) -> pa.Array:
    is_refused = place != _NO_REFUSAL
    values, moved = _places([block.refusals for block in blocks], block[is_refused], place[is_refused])
    out = np.full(len(place), -1, np.int32)
    out[is_refused] = moved
    return _strings(values, out)


def _others(blocks: Sequence[EventBlock], gaps: Sequence["Gap"], api_names: Mapping[int, str]) -> dict[str, Columns]:
    """Return the tables whose rows are stored as values. Tables of later minor versions are left out."""
    rows: dict[str, list[Sequence[Any]]] = {}
    for block in blocks:
        for table, *values in block.others:
            if table in _CONTRACT.tables:
                rows.setdefault(table, []).append(values)
    if gaps:
        rows.setdefault("gap", []).extend(gap.values for gap in gaps)
        rows["gap"].sort(key=lambda values: int(values[0]))
    return {table: _columns(_CONTRACT.tables[table].fields[len(COMMON) - 1 :], found) for table, found in rows.items()}


def _columns(fields: Sequence[Field], rows: Sequence[Sequence[Any]]) -> Columns:
    whole = (fitted(values, len(fields)) for values in rows)
    return {field.name: _column(field, values) for field, values in zip(fields, zip(*whole, strict=True), strict=True)}


def fitted(values: Sequence[Any], count: int) -> Sequence[Any]:
    """Return a row of a spool with `count` values.

    An earlier minor version has fewer values: the missing ones are null. A later one has more: they are left out.
    """
    return values if len(values) == count else [*values, *[None] * (count - len(values))][:count]


def _column(field: Field, values: Sequence[Any]) -> pa.Array:
    if field.type.startswith("map"):
        return pa.array([sorted(value.items()) for value in values], _TYPES[field.type])
    array = pa.array(values, _TYPES[field.type])
    return array.dictionary_encode() if field.type == "string" else array


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of numbers without an event in a spool. `ts` is in microseconds."""

    first_seq: int
    last_seq: int
    ts: int
    reason: str
    detail: str | None

    @property
    def values(self) -> tuple[Any, ...]:
        """Return the values of a row of the table gap, from column seq on."""
        count = self.last_seq - self.first_seq + 1
        return (self.last_seq, self.first_seq, self.ts, count, self.reason, self.detail)


def gaps_of(content: SpoolContent, until_seq: int | None, *, ended: bool) -> Iterator[Gap]:
    """Yield the numbers that the file should have and lacks.

    `until_seq` is the last number that belongs into it, if it is known from elsewhere; `ended` means that its broker
    has stopped.
    """
    ts, expected = content.header.opened_us, content.header.first_seq
    where = "; ".join(f"{damage.length} bytes from {damage.offset}" for damage in content.damages)
    for block in content.blocks:
        if block.first_seq > expected:
            yield Gap(expected, block.first_seq - 1, ts, "damaged", where or None)
        ts, expected = block.wall_us, block.last_seq + 1
    last = content.end.last_seq if content.end is not None else until_seq
    if last is not None:
        if last >= expected:
            yield Gap(expected, last, ts, "damaged", where or None)
    elif ended and content.reserved is None:
        yield Gap(expected, expected, ts, "damaged", f"{where}; how many more are missing is not known")
    elif ended and content.reserved is not None and content.reserved >= expected:
        yield Gap(expected, content.reserved, ts, "damaged" if content.damages else "killed", where or None)
