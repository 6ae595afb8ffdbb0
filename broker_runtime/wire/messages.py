"""Whole messages: bytes <-> kio entities, for every API that is not on the hot path.

Pure. Handlers answer with `Fields`, nested mappings that use kio's field names of the newest version; the builder
drops what an older version does not have, fills what has a default, and refuses what no version knows, so that one
handler serves every version. kio's modules are imported when a version is first used: the whole schema costs memory.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from kio.serial import entity_writer

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.decode import read_entity
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.versions import FORMATS, OWN_MESSAGES

Fields = Mapping[str, object]
Entity = Any
"""A decoded kio dataclass; which attributes it has depends on the version."""

ERROR_MESSAGE_CHARACTERS_MAX = 4000
"""Messages quote names that clients chose; old versions cannot carry more than 32,767 bytes."""
CLIENT_ID = "sluicegate-broker"
REQUEST_BYTES_MAX = 1024 * 1024
"""Of a request that is no Produce: its fields become objects of many times their size, all in one turn of the loop."""


@cache
def message_type(api_key: int, version: int, direction: str) -> type[Entity]:
    """The class of a request or response ("Request" or "Response"): kio's, or one of ours in kio's form."""
    module = FORMATS[api_key].module
    name = "".join(part.title() for part in module.split("_")) + direction
    place = OWN_MESSAGES.get((api_key, version, direction), f"kio.schema.{module}.v{version}")
    found: type[Entity] = getattr(import_module(place), name)
    return found


def decode_request(api_key: int, version: int, body: memoryview) -> Entity:
    """Raises ProtocolError when the bytes are no such request."""
    kind = message_type(api_key, version, "Request")
    if len(body) > REQUEST_BYTES_MAX:
        raise ProtocolError(
            "too-large", f"{kind.__name__} of {len(body)} bytes; ask in several requests of at most {REQUEST_BYTES_MAX}"
        )
    return _decode(kind, body)


def decode_response(api_key: int, version: int, body: memoryview) -> Entity:
    return _decode(message_type(api_key, version, "Response"), body)


def _decode(kind: type[Entity], body: memoryview) -> Entity:
    try:
        return read_entity(kind, bytes(body))
    except ProtocolError as error:
        raise ProtocolError(error.kind, f"{kind.__name__} v{kind.__version__} cannot be read: {error}") from None


def encode_response(api_key: int, version: int, correlation_id: int, answer: Fields) -> bytes:
    """The whole response frame, size field included."""
    body = encode_response_body(api_key, version, answer)
    return response_prefix(api_key, version, correlation_id, len(body)) + body


def encode_response_body(api_key: int, version: int, answer: Fields) -> bytes:
    return _encode(message_type(api_key, version, "Response"), answer)


def encode_request_body(api_key: int, version: int, content: Fields) -> bytes:
    return _encode(message_type(api_key, version, "Request"), content)


def frame_request(api_key: int, version: int, correlation_id: int, body: bytes | memoryview) -> bytes:
    """Size, header and an already encoded body: what forwards a client's request under another correlation id."""
    name = CLIENT_ID.encode()
    header = b"".join(
        (
            api_key.to_bytes(2, "big"),
            version.to_bytes(2, "big"),
            correlation_id.to_bytes(4, "big"),
            len(name).to_bytes(2, "big"),
            name,
            b"\x00" if version >= FORMATS[api_key].flexible_from else b"",
        )
    )
    return (len(header) + len(body)).to_bytes(4, "big") + header + bytes(body)


def _encode(kind: Any, content: Fields) -> bytes:
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, _builder(kind)(content))
    return buffer.getvalue()


Convert = Callable[[Any], Any]


@cache
def _builder(kind: type[Entity]) -> Callable[[Fields], Entity]:
    """A function that makes `kind` of Fields; the analysis of the class is done once."""
    hints = get_type_hints(kind)
    plan = [(f.name, _converter(f, hints[f.name]), f.default is MISSING) for f in fields(kind)]

    def build(content: Fields) -> Entity:
        values = {}
        for name, convert, required in plan:
            if name in content:
                values[name] = convert(content[name])
            elif required:
                if name != "throttle_time":
                    raise TypeError(f"{kind.__name__} v{kind.__version__} needs {name}")
                values[name] = timedelta(0)
        return kind(**values)

    return build


def _same(value: Any) -> Any:
    return value


def _clipped(value: str | None) -> str | None:
    return value if value is None else value[:ERROR_MESSAGE_CHARACTERS_MAX]


def _milliseconds(value: Any) -> Any:
    return value if isinstance(value, timedelta) else timedelta(milliseconds=value)


def _converter(field: Any, hint: Any) -> Convert:
    if field.metadata.get("kafka_type", "").startswith("timedelta"):
        return _milliseconds
    if field.name == "error_message":
        return _clipped
    optional = get_origin(hint) in (Union, UnionType)
    inner = next(arg for arg in get_args(hint) if arg is not type(None)) if optional else hint
    if get_origin(inner) is tuple:
        item = get_args(inner)[0]
        convert: Convert = _builder(item) if hasattr(item, "__api_key__") else _same
        return _sequence(convert, optional)
    if hasattr(inner, "__api_key__"):
        build = _builder(inner)
        return (lambda value: None if value is None else build(value)) if optional else build
    return _same


def _sequence(convert: Convert, optional: bool) -> Convert:
    def sequence(value: Sequence[Any] | None) -> tuple[Any, ...] | None:
        if value is None and optional:
            return None
        if value is None:
            raise TypeError("null where an array is needed")
        return tuple([convert(item) for item in value])

    return sequence
