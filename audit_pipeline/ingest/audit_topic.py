"""The audit topic: its name, kafka:BOOTSTRAP/TOPIC, and the format of its records. Pure.

A record is an event: a JSON object with `table` and the fields of that table (docs/reference/audit-events.md), times as
2026-11-22T05:00:00.123456Z. Its key names the boot, so that the events of a boot are in one partition and in order. The
events of a segment are followed by its end: a record with table `segment` and the content of the segment's footer.
Events without an end after them are incomplete, and are published again. Readers therefore drop rows whose key, in the
sense of the table, they already have.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec

from audit_pipeline.contract import contract
from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.client_config import PLAINTEXT, ClientProperties
from audit_pipeline.spool.segment import Footer
from audit_pipeline.spool.targets import TOPIC_SCHEME as SCHEME

END = "segment"
_END_BEGINS = f'{{"table":"{END}",'.encode()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class EventRecord(NamedTuple):
    """A record of the audit topic.

    `timestamp_ms` is the event's time, or the present time if that is earlier: brokers reject times in the future.
    """

    key: bytes
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """The address of a Kafka topic, with its brokers.

    `bootstrap` is host:port, or several such texts separated by commas.
    """

    bootstrap: str
    topic: str
    client: ClientProperties = PLAINTEXT

    @classmethod
    def of(cls, source: str, client: ClientProperties = PLAINTEXT) -> Self:
        """Parse the name kafka:BOOTSTRAP/TOPIC of an audit topic. Raises BadUseError.

        `client` has the properties of connections to the topic.
        """
        bootstrap, slash, topic = source.removeprefix(SCHEME).rpartition("/")
        is_whole = source.startswith(SCHEME) and slash and all(":" in each for each in bootstrap.split(","))
        if not is_whole or _TOPIC.fullmatch(topic) is None:
            raise BadUseError(
                f"{source} does not name a topic: give {SCHEME}HOST:PORT/TOPIC, such as kafka:127.0.0.1:9092/audit"
            )
        return cls(bootstrap, topic, client)


def is_topic(source: str) -> bool:
    return source.startswith(SCHEME)


def event_records(table: str, rows: Iterable[dict[str, Any]], now_ms: int) -> Iterator[EventRecord]:
    """Encode rows in Arrow's form as records of the audit topic."""
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
    """Return the footer of a segment if the record is its end. Raises ValueError for an unreadable end."""
    if value is None or not value.startswith(_END_BEGINS):
        return None
    return footer_of(_decode(value))


def footer_of(read: Mapping[str, Any]) -> Footer:
    try:
        given = {field.name: read[field.name] for field in fields(Footer)}
    except KeyError as error:
        raise ValueError(f"the end of a segment lacks {error}") from error
    return Footer(**{**given, "segments": tuple(given["segments"])})


def _key(cluster_id: str, broker_id: int, boot_id: str) -> bytes:
    return f"{cluster_id}-{broker_id}-{boot_id}".encode()
