"""The audit topic: how it is named, kafka:BOOTSTRAP/TOPIC, and what its records look like. Pure.

A record is an event: a JSON object with `table` and the fields of that table (docs/reference/audit-events.md), times as
2026-11-22T05:00:00.123456Z. Its key names the boot, so that a boot is in one partition and in its order. Behind the
events of a segment comes its end: a record with table `segment` and what the footer of the segment's files says. Events
without an end behind them are not all there yet, and are published again; so readers drop rows whose key, in the sense
of the table, they have already.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec

from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError
from audit_pipeline.segment import Footer
from audit_pipeline.targets import TOPIC_SCHEME as SCHEME

END = "segment"
_END_BEGINS = f'{{"table":"{END}",'.encode()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class EventRecord(NamedTuple):
    """`timestamp_ms` is the event's time, but never in the future: a broker would refuse it."""

    key: bytes
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Where a topic is. `bootstrap`: host:port, or several with commas between."""

    bootstrap: str
    topic: str

    @classmethod
    def of(cls, source: str) -> Self:
        """Raises BadUseError."""
        bootstrap, slash, topic = source.removeprefix(SCHEME).rpartition("/")
        is_whole = source.startswith(SCHEME) and slash and all(":" in each for each in bootstrap.split(","))
        if not is_whole or _TOPIC.fullmatch(topic) is None:
            raise BadUseError(
                f"{source} names no topic: give {SCHEME}HOST:PORT/TOPIC, such as kafka:127.0.0.1:9092/audit"
            )
        return cls(bootstrap, topic)


def is_topic(source: str) -> bool:
    return source.startswith(SCHEME)


def event_records(table: str, rows: Iterable[dict[str, Any]], now_ms: int) -> Iterator[EventRecord]:
    """Of rows as Arrow has them."""
    maps = [field.name for field in contract().tables[table].fields if field.type.startswith("map")]
    for row in rows:
        for name in maps:
            row[name] = dict(row[name])
        ts: datetime = row["ts"]
        key = _key(row["cluster_id"], row["broker_id"], row["boot_id"])
        yield EventRecord(key, _encode({"table": table, **row}), min(int(ts.timestamp() * 1000), now_ms))


def end_record(footer: Footer, now_ms: int) -> EventRecord:
    value = _encode({"table": END, **asdict(footer)})
    key = _key(footer.cluster_id, footer.broker_id, footer.boot_id)
    return EventRecord(key, value, min(footer.closed_us // 1000, now_ms))


def end_of(value: bytes | None) -> Footer | None:
    """The footer of a segment, if the record is its end. Raises ValueError for one that nobody can read."""
    if value is None or not value.startswith(_END_BEGINS):
        return None
    return footer_of(_decode(value))


def footer_of(read: Mapping[str, Any]) -> Footer:
    try:
        given = {field.name: read[field.name] for field in fields(Footer)}
    except KeyError as error:
        raise ValueError(f"the end of a segment does not tell {error}") from error
    return Footer(**{**given, "segments": tuple(given["segments"])})


def _key(cluster_id: str, broker_id: int, boot_id: str) -> bytes:
    return f"{cluster_id}-{broker_id}-{boot_id}".encode()
