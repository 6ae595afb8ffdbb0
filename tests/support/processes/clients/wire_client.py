"""A small blocking Kafka client over one socket: requests as mappings, answers as plain values, frames as bytes.

    with WireClient(("127.0.0.1", port)) as client:
        client.ask("create_topics", 7, topics=[...], timeout=30_000, validate_only=False)["topics"]
        client.send(b"...")          # raw bytes, for what no client sends
        client.receive()             # one frame, None when the broker closed the connection

Messages are kio's, found by kio's own names. A request's fields are kio's names of that version; a field with a default
may be left out. The client uses no code of our broker, so that a mistake there cannot hide itself.
"""

import dataclasses
import io
import socket
import struct
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, Self, get_args, get_type_hints

from kio.serial import entity_reader, entity_writer

Plain = Any
"""The parts of an answer: dict, list, str, int, float, bool, bytes or None."""

TIMEOUT_S = 60.0
CLIENT_ID = "wire-client"
API_VERSIONS = 18
ANSWERED, CLOSED, SILENCE = "(answer)", "(connection closed)", "(no answer)"
_SIZE = struct.Struct(">i")


class ConnectionEnded(Exception):  # noqa: N818 - an observation, often the wanted one
    """The broker closed the connection instead of answering."""


@cache
def message(api: str, version: int, direction: str) -> type[Any]:
    """kio's class of a message; `direction` is "Request" or "Response"."""
    name = "".join(part.title() for part in api.split("_")) + direction
    found: type[Any] = getattr(import_module(f"kio.schema.{api}.v{version}"), name)
    return found


@cache
def request_frame_header(
    api_key: int, version: int, correlation_id: int, flexible: bool, client_id: str = CLIENT_ID
) -> bytes:
    name = client_id.encode()
    head = struct.pack(f">hhih{len(name)}s", api_key, version, correlation_id, len(name), name)
    return head + (b"\x00" if flexible else b"")


def request_frame(
    api: str, version: int, correlation_id: int, fields: Mapping[str, Plain], client_id: str = CLIENT_ID
) -> bytes:
    """A request with its size in front."""
    kind = message(api, version, "Request")
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, _entity(kind, fields))
    header = request_frame_header(kind.__api_key__, version, correlation_id, kind.__flexible__, client_id)
    body = header + buffer.getvalue()
    return _SIZE.pack(len(body)) + body


def read_answer(api: str, version: int, frame: bytes) -> dict[str, Plain]:
    """The answer in a frame without its size; fails if bytes are left over."""
    kind = message(api, version, "Response")
    start = 5 if kind.__flexible__ and kind.__api_key__ != API_VERSIONS else 4
    entity, size = entity_reader(kind)(memoryview(frame), start)
    if start + size != len(frame):
        raise AssertionError(f"{api} v{version}: {len(frame) - start - size} bytes too many in the answer")
    answer: dict[str, Plain] = plain(entity)
    return answer


def plain(value: Plain) -> Plain:
    """kio's values as built-in ones: errors by name, times in ms, ids as text."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return str(value)
    return value


def _entity(kind: type[Any], values: Mapping[str, Plain]) -> Any:
    known = {field.name: field for field in dataclasses.fields(kind)}
    strangers = values.keys() - known.keys()
    if strangers:
        raise TypeError(f"{kind.__name__} v{kind.__version__} has no {', '.join(sorted(strangers))}")
    hints = get_type_hints(kind)
    return kind(**{name: _value(known[name], hints[name], value) for name, value in values.items()})


def trimmed(api: str, version: int, fields: Mapping[str, Plain]) -> dict[str, Plain]:
    """`fields` without those that this version does not have: one content for every version."""
    return _trim(message(api, version, "Request"), fields)


def _trim(kind: type[Any], values: Mapping[str, Plain]) -> dict[str, Plain]:
    hints = get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    return {name: _trim_value(_nested(hints[name]), value) for name, value in values.items() if name in known}


def _trim_value(nested: type[Any] | None, value: Plain) -> Plain:
    if nested is None:
        return value
    if isinstance(value, Mapping):
        return _trim(nested, value)
    return [_trim(nested, item) for item in value] if isinstance(value, list | tuple) else value


def _value(field: dataclasses.Field[Any], hint: Any, value: Plain) -> Any:
    if value is None:
        return None
    if str(field.metadata.get("kafka_type", "")).startswith("timedelta"):
        return timedelta(milliseconds=value)
    nested = _nested(hint)
    if isinstance(value, Mapping) and nested is not None:
        return _entity(nested, value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(_entity(nested, item) if nested is not None else item for item in value)
    return value


def _nested(hint: Any) -> type[Any] | None:
    """The message inside `tuple[X, ...]`, `X | None` and the like."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return hint
    for part in get_args(hint):
        found = _nested(part)
        if found is not None:
            return found
    return None


class WireClient:
    """A connection to a broker that sends and receives frames."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        source: str = "127.0.0.1",
        timeout_s: float = TIMEOUT_S,
        client_id: str = CLIENT_ID,
    ) -> None:
        self._client_id = client_id
        self._socket = socket.create_connection(address, timeout=timeout_s, source_address=(source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, api: str, version: int, /, **fields: Plain) -> dict[str, Plain]:
        """Send a request and return the answer. Raises ConnectionEnded if the broker closes the connection instead."""
        correlation_id = self.tell(api, version, **fields)
        frame = self.receive()
        if frame is None:
            raise ConnectionEnded(f"{api} v{version}")
        assert _SIZE.unpack_from(frame)[0] == correlation_id
        return read_answer(api, version, frame)

    def tell(self, api: str, version: int, /, **fields: Plain) -> int:
        """Send a request without waiting; return its correlation id."""
        self._correlation_id += 1
        self.send(request_frame(api, version, self._correlation_id, fields, self._client_id))
        return self._correlation_id

    def send(self, data: bytes) -> None:
        """Send raw bytes; if the broker has already closed the connection, `receive` reports it."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def finish_sending(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def receive(self, timeout_s: float = TIMEOUT_S) -> bytes | None:
        """One frame without its size; None when the connection ended. Raises TimeoutError in silence."""
        self._socket.settimeout(timeout_s)
        head = self._exactly(4)
        return None if head is None else self._exactly(_SIZE.unpack(head)[0])

    def outcome(self, silent_after_s: float) -> str:
        """The broker's reaction to bytes that no client sends."""
        try:
            return CLOSED if self.receive(silent_after_s) is None else ANSWERED
        except TimeoutError:
            return SILENCE

    def _exactly(self, count: int) -> bytes | None:
        found = bytearray()
        while len(found) < count:
            try:
                part = self._socket.recv(count - len(found))
            except ConnectionResetError:
                return None
            if not part:
                return None
            found += part
        return bytes(found)
