"""Requests that no client sends, made from kio's types: odd values, changed bytes, truncations, inventions."""

import io
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.wire.messages import message_type
from tests.support.requests.request_frames import is_flexible

MUTATIONS, CUTS, INVENTIONS = 36, 8, 8
"""Number of such requests for each version of each API."""
NUMBERS = (-1, 0, 1, 1, 2, 100)
TEXTS = ("hostile", "", "1", "ö" * 40, "x" * 300)
ARRAY_BOMB = b"\xff\xff\xff\xff\x0f"


def sample(kind: Any, rng: random.Random, texts: Sequence[str] = TEXTS) -> Any:
    """An entity of odd values, so that handlers also receive them. `texts` are the values of its strings."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _value(field, hints[field.name], rng, texts) for field in fields(kind)})


def _value(field: Any, hint: Any, rng: random.Random, texts: Sequence[str]) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (member for member in get_args(hint) if member is not NoneType)
        if "tag" not in field.metadata and rng.random() < 0.3:
            return None
    if get_origin(hint) is tuple:
        return tuple(_value(field, get_args(hint)[0], rng, texts) for _ in range(rng.randrange(3)))
    if is_dataclass(hint):
        return sample(hint, rng, texts)
    kind = field.metadata["kafka_type"]
    plain: dict[str, Any] = {
        "string": rng.choice(texts),
        "uuid": UUID(int=rng.randrange(1, 2**128)),
        "bool": rng.random() < 0.5,
        "float64": rng.choice((0.0, -1.5, 10.0, float("inf"), float("nan"))),
        "timedelta_i32": timedelta(milliseconds=rng.choice((0, 1, 50))),
        "timedelta_i64": timedelta(milliseconds=rng.choice((0, 1, 50))),
        "records": rng.randbytes(80),
        "bytes": rng.randbytes(20),
        "uint16": rng.randrange(2**16),
        "error_code": rng.choice((ErrorCode.none, ErrorCode.not_controller, ErrorCode.unknown_server_error)),
        "datetime_i64": datetime(2026, 11, 29, tzinfo=UTC),
    }
    return plain[kind] if kind in plain else rng.choice(NUMBERS)


def framed(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih3s", key, version, 7, 3, b"odd") + (b"\x00" if is_flexible(key, version) else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def resized(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def well_formed(api: ApiSpec[Any], version: int, rng: random.Random, texts: Sequence[str] = TEXTS) -> bytes:
    kind = message_type(api.key, version, "Request")
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, sample(kind, rng, texts))
    return framed(api.key, version, buffer.getvalue())


def hostile(api: ApiSpec[Any], version: int, rng: random.Random) -> Iterator[bytes]:
    for _ in range(MUTATIONS):
        changed = bytearray(well_formed(api, version, rng))
        for _ in range(rng.randrange(1, 4)):
            # Never the size, the API or the version: those would end the frame before its body is read.
            changed[rng.randrange(8, len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        yield bytes(changed)
    for _ in range(CUTS):
        payload = well_formed(api, version, rng)[4:]
        yield resized(payload[: rng.randrange(4, len(payload))])
    for _ in range(INVENTIONS):
        yield framed(api.key, version, rng.randbytes(rng.randrange(60)))
    yield framed(api.key, version, ARRAY_BOMB)
    yield framed(api.key, version, b"\x7f\xff\xff\xff" * 5)
    yield framed(api.key, version, b"\xff" * 12)
