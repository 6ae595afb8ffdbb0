"""Shows events as brokers write them: follows the spools of a folder. Shell."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from audit_pipeline.errors import never
from audit_pipeline.ingest.selection import Selection
from audit_pipeline.spool.events import Event, events_of
from audit_pipeline.spool.spool import HEAD_BYTES, SUFFIX, Damage, EventBlock, Header, read_header, whole_blocks
from kafka_bytes.printable import printable

log = logging.getLogger(__name__)


class SpoolTail:
    """A reader of new events in the spools of these folders. A missing folder counts as empty.

    It continues in each spool where it stopped.
    """

    def __init__(self, folders: Sequence[Path], *, from_start: bool) -> None:
        self._folders = folders
        self._read_to: dict[Path, int] = {}
        self._headers: dict[Path, Header] = {}
        if not from_start:
            for _ in self.blocks():
                pass

    def blocks(self) -> Iterator[tuple[Header, EventBlock]]:
        """Yield the blocks that are new since the last call."""
        paths = [path for folder in self._folders for path in sorted(folder.glob(f"*{SUFFIX}"))]
        for gone in self._read_to.keys() - set(paths):
            del self._read_to[gone]
            self._headers.pop(gone, None)
        for path in paths:
            yield from self._new_blocks(path)

    def _new_blocks(self, path: Path) -> Iterator[tuple[Header, EventBlock]]:
        at = self._read_to.get(path, HEAD_BYTES)
        try:
            with path.open("rb") as file:
                if path not in self._headers:
                    header = read_header(file.read())
                    if header is None:
                        return
                    self._headers[path] = header
                file.seek(at)
                data = file.read()
        except FileNotFoundError:
            return
        for block, end in whole_blocks(data):
            self._read_to[path] = at + end
            if isinstance(block, Damage):
                log.warning("%s: %d bytes from %d on are damaged", path, block.length, at + block.offset)
            if isinstance(block, EventBlock):
                yield self._headers[path], block


def follow(
    tail: SpoolTail,
    selection: Selection,
    show: Callable[[str, Event], str],
    pause: Callable[[], bool],
    is_stopped: Callable[[], bool] = never,
) -> Iterator[str]:
    """Yield the lines of selected events until `is_stopped` or `pause` returns True.

    `pause` waits when everything is shown.
    """
    while True:
        for header, block in tail.blocks():
            for table, event in events_of(header, block):
                if is_stopped():
                    return
                if selection.has(table, event, header.api_names):
                    yield show(table, event)
        if pause():
            return


def as_json(table: str, event: Event) -> str:
    return json.dumps({"table": table, **event}, default=_moment)


def as_line(table: str, event: Event) -> str:
    moment = _moment(event["ts"])
    who = f"broker {event['broker_id']} #{event['seq']}"
    show = _LINES.get(table)
    return printable(f"{moment} {who} {table} {show(event) if show else json.dumps(_own(event), default=_moment)}")


def _request(event: Event) -> str:
    parts = [
        f"{event['api']} v{event['api_version']}",
        event["ending"],
        _client(event),
        f"{event['request_bytes']} B in, {event['response_bytes']} B out, {event['total_us'] / 1000:.3f} ms",
    ]
    if event["error_code"]:
        parts.append(f"error {event['error_code']}")
    if event["refusal"]:
        parts.append(event["refusal"])
    return ", ".join(parts)


def _partition(event: Event) -> str:
    records = "" if event["records"] is None else f"{event['records']} records, "
    offset = "" if event["base_offset"] is None else f" at {event['base_offset']}"
    error = f", error {event['error_code']}" if event["error_code"] else ""
    return f"{event['topic']}-{event['partition']}: {records}{event['bytes']} B{offset}{error}"


def _connection(event: Event) -> str:
    reason = f" ({event['reason']})" if event["reason"] else ""
    return f"{event['event']}{reason}, {_client(event)}"


def _change(event: Event) -> str:
    names = [event["resource_type"], event["resource_name"], event["key"]]
    what = " ".join(name for name in names if name is not None)
    values = [f"{word} {event[name]}" for word, name in (("from", "old_value"), ("to", "new_value")) if event[name]]
    counted = "" if event["further"] is None else f"{event['further']} more"
    error = event["error_code"]
    outcome = event["ending"] if error is None else f"error {error}" if error else "succeeded"
    parts = [f"{event['api']}: {event['operation']} {what}", *values, counted, outcome, _client(event)]
    return ", ".join(part for part in parts if part)


def _connection_limit(event: Event) -> str:
    places = [event["key"], event["entity"], event["listener"]]
    value = event["text"] if event["value"] is None or event["key"] == "member" else event["value"]
    parts = [f"{event['event']} {' of '.join(place for place in places if place)}".rstrip()]
    parts += [] if value is None else [str(value)]
    parts += [event["kind"]] if event["kind"] not in (None, "configured") else []
    return ", ".join(parts)


def _gap(event: Event) -> str:
    return f"{event['events']} events from {event['first_seq']} on are missing: {event['reason']}"


def _client(event: Event) -> str:
    port = "" if event["client_port"] is None else f":{event['client_port']}"
    name = f" {event['client_id']}" if event["client_id"] else ""
    return f"{event['principal']}{name} from {event['client_ip']}{port} on {event['listener']}"


_LINES: dict[str, Callable[[Event], str]] = {
    "request": _request,
    "partition": _partition,
    "connection": _connection,
    "change": _change,
    "connection_limit": _connection_limit,
    "gap": _gap,
}


def _own(event: Event) -> Event:
    return {name: value for name, value in event.items() if name not in ("cluster_id", "broker_id", "boot_id", "ts")}


def _moment(value: Any) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else str(value)
