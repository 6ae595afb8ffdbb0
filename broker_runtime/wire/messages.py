"""Whole messages: bytes <-> kio entities, for every API that is not on the hot path.

Pure. Handlers return `Fields`, nested mappings with kio's field names of the newest version. The builder drops fields
that an older version does not have, adds defaults, and rejects fields that no version knows. So one handler serves
every version. kio's modules are imported at the first use of a version: the whole schema costs memory.
"""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Any

from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.decode import read_entity, read_in_steps
from broker_runtime.wire.encoding.encode import Fields as Fields
from broker_runtime.wire.encoding.encode import Pieces, encode_entity, encode_in_steps
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.limits import DEFAULT_LIMITS, ItemBudget, RequestLimits, RequestTooLargeError
from broker_runtime.wire.reply import SHORT_BYTES
from broker_runtime.wire.versions import FORMATS, OWN_MESSAGES

Entity = Any
"""A decoded kio dataclass; its attributes depend on the version."""

_INT32 = Struct(">i")
CLIENT_ID = "sluicegate-broker"
_ANY_LENGTH = RequestLimits(items_max=2**31 - 1, tagged_fields_max=2**31 - 1, tagged_bytes_max=2**31 - 1)
"""The limits of messages that do not come from clients: nearly none."""


@cache
def message_type(api_key: int, version: int, direction: str) -> type[Entity]:
    """Return the class of a request or response ("Request" or "Response").

    It is kio's class, or one of Sluicegate in kio's form.
    """
    module = FORMATS[api_key].module
    name = "".join(part.title() for part in module.split("_")) + direction
    place = OWN_MESSAGES.get((api_key, version, direction), f"kio.schema.{module}.v{version}")
    _import_headers()
    found: type[Entity] = getattr(import_module(place), name)
    return found


@cache
def _import_headers() -> None:
    """Import the headers that kio's classes refer to: their packages first, as kio.serial does.

    A class imports a header's module before its package. If the event loop did so while a thread imports kio.serial,
    each would wait for a module of the other, and Python would end one of the imports with an error.
    """
    for package in ("request_header.v1", "request_header.v2", "response_header.v0", "response_header.v1"):
        import_module(f"kio.schema.{package}")


def decode_request(api_key: int, version: int, body: memoryview, limits: RequestLimits = DEFAULT_LIMITS) -> Entity:
    """Decode a short request. Raises ProtocolError when the bytes are not such a request."""
    kind = message_type(api_key, version, "Request")
    check_size(kind.__name__, len(body), limits)
    return _decode(kind, body)


def decode_request_in_steps(api_key: int, version: int, body: memoryview, limits: RequestLimits) -> Steps[Entity]:
    """Decode a request of any length in steps.

    Raises ProtocolError, and RequestTooLargeError for a request that exceeds a limit.
    """
    kind = message_type(api_key, version, "Request")
    check_size(kind.__name__, len(body), limits)
    try:
        return (yield from read_in_steps(kind, body, ItemBudget(limits, api_key)))
    except RequestTooLargeError:
        raise
    except ProtocolError as error:
        raise _unreadable(kind, error) from None


def check_size(name: str, size: int, limits: RequestLimits) -> None:
    """Check the size of a request other than Produce. Raises RequestTooLargeError."""
    if size > limits.bytes_max:
        raise RequestTooLargeError(
            "too-large",
            f"{name} of {size} bytes; at most {limits.bytes_max} are allowed (sluicegate.request.max.bytes); split "
            "the request into several",
        )


def encode_request_in_steps(api_key: int, version: int, content: Fields) -> Steps[bytes]:
    """Return the body of a request of any length, encoded in steps."""
    pieces = Pieces()
    yield from encode_in_steps(message_type(api_key, version, "Request"), content, pieces)
    return b"".join(pieces.all())


def decode_response_in_steps(api_key: int, version: int, body: memoryview) -> Steps[Entity]:
    """Decode the response of another node of the cluster, of any length. Raises ProtocolError."""
    kind = message_type(api_key, version, "Response")
    try:
        return (yield from read_in_steps(kind, body, ItemBudget(_ANY_LENGTH, api_key)))
    except ProtocolError as error:
        raise _unreadable(kind, error) from None


def decode_response(api_key: int, version: int, body: memoryview) -> Entity:
    return _decode(message_type(api_key, version, "Response"), body)


def _decode(kind: type[Entity], body: memoryview) -> Entity:
    try:
        return read_entity(kind, bytes(body))
    except ProtocolError as error:
        raise _unreadable(kind, error) from None


def _unreadable(kind: type[Entity], error: ProtocolError) -> ProtocolError:
    return ProtocolError(error.kind, f"{kind.__name__} v{kind.__version__} cannot be read: {error}")


def encode_response(api_key: int, version: int, correlation_id: int, answer: Fields) -> bytes:
    """Return a whole response frame, size field included."""
    body = encode_response_body(api_key, version, answer)
    return response_prefix(api_key, version, correlation_id, len(body)) + body


def encode_response_body(api_key: int, version: int, answer: Fields) -> bytes:
    return encode_entity(message_type(api_key, version, "Response"), answer)


def encode_request_body(api_key: int, version: int, content: Fields) -> bytes:
    return encode_entity(message_type(api_key, version, "Request"), content)


def frame_request(api_key: int, version: int, correlation_id: int, body: bytes | memoryview) -> bytes:
    """Return a request frame around an encoded body, to forward a client's request under another correlation id."""
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
    return b"".join(((len(header) + len(body)).to_bytes(4, "big"), header, body))


def with_throttle_time(
    api_key: int, version: int, throttle_ms: int, pieces: Sequence[bytes | memoryview]
) -> Sequence[bytes | memoryview]:
    """Return the pieces of an encoded response body with this throttle time, if the response begins with the field.

    The first piece contains the whole field. A long piece is not copied.
    """
    if not throttle_ms or not _begins_with_throttle_time(api_key, version):
        return pieces
    first, field = memoryview(pieces[0])[_INT32.size :], _INT32.pack(throttle_ms)
    return (field + first, *pieces[1:]) if len(first) <= SHORT_BYTES else (field, first, *pieces[1:])


def throttle_ms_of(api_key: int, version: int, body: memoryview) -> int:
    """Return the throttle time of an encoded response body; 0 if the response does not begin with the field."""
    if not any(body[: _INT32.size]) or not _begins_with_throttle_time(api_key, version):
        return 0
    (throttle_ms,) = _INT32.unpack_from(body)
    return max(0, int(throttle_ms))


@cache
def _begins_with_throttle_time(api_key: int, version: int) -> bool:
    """Whether the throttle time is the first field of a response, as in nearly all that have it."""
    return fields(message_type(api_key, version, "Response"))[0].name == "throttle_time"
