"""Random messages of every API and version that is served, written by kio: for hypothesis."""

import io
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.wire.messages import message_type

APIS: tuple[ApiSpec[Any], ...] = (*BROKER_APIS, *CONTROLLER_APIS)
SERVED = {api.key: api for api in APIS}
KINDS = [(key, direction) for key in SERVED for direction in ("Request", "Response")]
KIND_IDS = [f"{SERVED[key].name}{direction}" for key, direction in KINDS]


def numbers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": numbers(8, signed=True),
    "int16": numbers(16, signed=True),
    "int32": numbers(32, signed=True),
    "int64": numbers(64, signed=True),
    "uint16": numbers(16, signed=False),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=5) | st.just("ö" * 200),
    "bytes": st.binary(max_size=5) | st.just(b"b" * 200),
    "records": st.binary(max_size=5) | st.just(b"r" * 200),
    "uuid": st.uuids().filter(lambda found: found.int != 0),
    "timedelta_i32": numbers(32, signed=True).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": numbers(48, signed=True).map(lambda ms: timedelta(milliseconds=ms)),
    # kio's reader is a microsecond off for some later times.
    "datetime_i64": st.integers(0, 2**42).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)),
    "error_code": st.sampled_from(list(ErrorCode)),
}


@cache
def entities(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.fixed_dictionaries({field.name: values(field, hints[field.name]) for field in fields(kind)}).map(
        lambda found: kind(**found)
    )


def values(field: Any, hint: Any) -> st.SearchStrategy[Any]:
    found = present(field, hint)
    # kio's writer has no null for tagged fields: they are left out instead.
    if field.metadata.get("tag") is not None and field.default is not MISSING:
        return found | st.just(field.default)
    return found


def present(field: Any, hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (member for member in get_args(hint) if member is not NoneType)
        found = present(field, inner)
        return found if "tag" in field.metadata else st.none() | found
    if get_origin(hint) is tuple:
        return st.lists(present(field, get_args(hint)[0]), max_size=2).map(tuple)
    if is_struct(hint):
        return entities(hint)
    return VALUES[field.metadata["kafka_type"]]


def is_struct(hint: Any) -> bool:
    return is_dataclass(hint)


@st.composite
def messages(draw: st.DrawFn, key: int, direction: str) -> tuple[Any, bytes]:
    low, high = SERVED[key].versions
    return draw(messages_of_version(key, draw(st.integers(low, high)), direction))


@st.composite
def messages_of_every_version(draw: st.DrawFn, key: int, direction: str) -> list[tuple[Any, bytes]]:
    low, high = SERVED[key].versions
    return [draw(messages_of_version(key, version, direction)) for version in range(low, high + 1)]


@st.composite
def messages_of_version(draw: st.DrawFn, key: int, version: int, direction: str) -> tuple[Any, bytes]:
    kind: Any = message_type(key, version, direction)
    entity = draw(entities(kind))
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, entity)
    return kind, buffer.getvalue()
