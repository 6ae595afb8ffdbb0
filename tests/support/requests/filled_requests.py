"""Requests with as many items in one array as wanted, like those of a client that wants to keep a broker busy.

Every other array of the request has one item, or none. Names are all different, or all the same: a topic that exists,
or a name that does not.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_runtime.wire.encoding.primitives import is_struct, without_none
from broker_runtime.wire.messages import encode_request_body, message_type
from tools.request_arrays import Path, arrays_in

_OF_TOPICS = ("name", "topic", "topic_name", "resource_name", "topics")
_CHOSEN: Mapping[str, object] = {
    "transactional_id": None,
    "acks": 1,
    "max_wait": timedelta(milliseconds=10),
    "session_epoch": -1,
    "session_id": 0,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "resource_type": 2,
    "replication_factor": 1,
    "num_partitions": 1,
    "config_operation": 0,
}
"""Values with which a broker processes as much of the request as it can; other numbers count up."""


_NUMBERS: Mapping[str, int] = {"int8": 100, "int16": 30_000, "uint16": 60_000}


def filled_request(
    key: int,
    version: int,
    path: Path,
    items_max: int,
    topic: str | None = None,
    *,
    others: int = 1,
    alike: bool = False,
    name_characters: int = 0,
) -> tuple[bytes, int]:
    """The body of a request that names `items_max` items at most, and the number of items that it names.

    Nearly all items are in the array at `path` and in the arrays inside it. `topic` is the topic that each of them
    names. `others` is the number of items, 0 or 1, of each array that is not on the way to `path`. With `alike` all
    items are equal. Other names have at least `name_characters`.
    """
    kind = message_type(key, version, "Request")
    assert path in arrays_in(kind)

    def content(count: int) -> dict[str, Any]:
        return _Filler(path, count, topic, others, alike, name_characters).entity(kind, (), 0)

    one, two = (_items(content(count)) for count in (1, 2))
    filled = content(1 + (items_max - one) // (two - one))
    return encode_request_body(key, version, filled), _items(filled)


def _items(content: object) -> int:
    """Number of items in all arrays together."""
    if isinstance(content, dict):
        return sum(map(_items, content.values()))
    return len(content) + sum(map(_items, content)) if isinstance(content, tuple) else 0


class _Filler:
    def __init__(
        self, filled: Path, count: int, topic: str | None, others: int, alike: bool, name_characters: int
    ) -> None:
        self._filled = filled
        self._alike = alike
        self._name_characters = name_characters
        self._count = count
        self._others = others
        self._topic = topic
        self._so_far: dict[Path, int] = {}

    def entity(self, kind: Any, path: Path, number: int) -> dict[str, Any]:
        return {
            field.name: self._field(field, hint, (*path, field.name), number)
            for field, hint in _fields_of(kind).items()
        }

    def _field(self, field: Any, hint: Any, path: Path, number: int) -> object:
        inner, nullable = without_none(hint)
        if get_origin(inner) is tuple:
            return self._array(field, without_none(get_args(inner)[0])[0], path)
        if is_struct(inner):
            return None if nullable and path != self._filled[: len(path)] else self.entity(inner, path, number)
        return self._value(field, path[-1], number, nullable=nullable)

    def _array(self, field: Any, item: Any, path: Path) -> object:
        if _is_left_out(field) and path != self._filled[: len(path)]:
            return field.default
        others = 1 if path == self._filled[: len(path)] else self._others
        count = self._count if path == self._filled else others
        first = self._so_far.get(path, 0)
        self._so_far[path] = first + count
        numbers = range(first, first + count)
        if is_struct(item):
            return tuple(self.entity(item, path, number) for number in numbers)
        return tuple(self._value(field, path[-1], number) for number in numbers)

    def _value(self, field: Any, name: str, number: int, *, nullable: bool = False) -> object:
        kind = field.metadata["kafka_type"]
        if self._topic is not None and kind == "string" and name in _OF_TOPICS:
            return self._topic
        if name in _CHOSEN and (nullable or _CHOSEN[name] is not None):
            return _CHOSEN[name]
        if _is_left_out(field) and not isinstance(field.default, tuple):
            return field.default
        value = _of_kind(kind, 0 if self._alike else number)
        return value.ljust(self._name_characters, "x") if isinstance(value, str) else value


@cache
def _fields_of(kind: Any) -> Mapping[Any, Any]:
    """Return the fields of a message's class with their types."""
    hints = get_type_hints(kind)
    return {field: hints[field.name] for field in fields(kind)}


def _is_left_out(field: Any) -> bool:
    return field.metadata.get("tag") is not None and field.default is not MISSING


def _of_kind(kind: str, number: int) -> object:
    if "int" in kind or kind == "float64":
        return number % _NUMBERS.get(kind, 1 << 30)
    return {
        "bool": False,
        "string": f"n{number}",
        "bytes": b"",
        "records": b"",
        "uuid": UUID(int=number + 1),
        "timedelta_i32": timedelta(milliseconds=100),
        "timedelta_i64": timedelta(milliseconds=100),
        "datetime_i64": datetime(2024, 1, 1, tzinfo=UTC),
        "error_code": ErrorCode.none,
    }[kind]
