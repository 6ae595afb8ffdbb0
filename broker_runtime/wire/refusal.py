"""A response with only an error for the whole request, for every message with such a field. Pure."""

from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_origin, get_type_hints
from uuid import UUID

from broker_runtime.wire.encoding.encode import encode_entity
from broker_runtime.wire.encoding.primitives import is_struct, without_none
from broker_runtime.wire.messages import message_type

_ZEROS = {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": UUID(int=0)}
_NOTHING = -1
"""An unknown number: an id, an epoch or a count."""


def refusal(api_key: int, version: int, code: int, message: str) -> bytes | None:
    """Return the body of a response with this error; None if the response has no error code of its own."""
    kind: Any = message_type(api_key, version, "Response")
    content = _empty(kind)
    if "error_code" not in content:
        return None
    told = {"error_code": code, "error_message": message}
    return encode_entity(kind, content | {name: value for name, value in told.items() if name in content})


@cache
def _empty(kind: Any) -> dict[str, Any]:
    """Return the fields of an empty response: empty arrays and texts, and unknown numbers."""
    hints = get_type_hints(kind)
    content: dict[str, Any] = {}
    for field in fields(kind):
        inner, nullable = without_none(hints[field.name])
        if field.name == "throttle_time" or "tag" in field.metadata:
            continue
        if field.default is not MISSING and not is_struct(field.default):
            content[field.name] = field.default
        elif get_origin(inner) is tuple:
            content[field.name] = ()
        elif nullable:
            content[field.name] = None
        elif is_struct(inner):
            content[field.name] = _empty(inner)
        else:
            content[field.name] = _ZEROS.get(field.metadata["kafka_type"], _NOTHING)
    return content
