"""Envelope (58), version 0 (KIP-590): a client's request as a broker forwards it, with the client's identity. Pure.

The frame of the request has its own header, so that the controller knows the client id. The principal is in the form of
Kafka's DefaultPrincipalData, version 0.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from struct import Struct
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.security.principal import Principal
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.varint import read_uvarint
from broker_runtime.wire.encoding.writer import byte_string, string
from broker_runtime.wire.header import FIXED_SIZE, response_prefix
from broker_runtime.wire.reply import SHORT_BYTES, Parts, joined, section
from broker_runtime.wire.versions import FORMATS
from kafka_bytes.varints import write_uvarint

VERSION = 0
_HEADER = Struct(">hhih")
_INT16 = Struct(">h")
_BOOLEAN = Struct(">b")
_PRINCIPAL_VERSION = 0
_NO_TAGS = b"\x00"
_NO_ADDRESS = bytes(4)
_SIZE_BYTES = 4
_VARINT_BYTES_MAX = 5


class Envelope(NamedTuple):
    """A forwarded request: its frame without the size field, and the principal and address of its client."""

    frame: memoryview
    principal: Principal
    address: str


def client_frame(api_key: int, version: int, client_id: str | None, body: memoryview) -> bytes:
    """Return a client's request as a frame without the size field. The correlation id is 0."""
    name = None if client_id is None else client_id.encode()
    header = _HEADER.pack(api_key, version, 0, -1 if name is None else len(name)) + (name or b"")
    return b"".join((header, _NO_TAGS if version >= FORMATS[api_key].flexible_from else b"", body))


def pack_envelope(envelope: Envelope) -> bytes:
    """Return the body of an Envelope request."""
    principal = envelope.principal
    identity = b"".join(
        (
            _INT16.pack(_PRINCIPAL_VERSION),
            string(principal.kind, True),
            string(principal.name, True),
            _BOOLEAN.pack(0),
            _NO_TAGS,
        )
    )
    try:
        address = ip_address(envelope.address).packed
    except ValueError:
        # The connection has no address, as in a simulation.
        address = _NO_ADDRESS
    size = write_uvarint(len(envelope.frame) + 1)
    return b"".join((size, envelope.frame, byte_string(identity, True), byte_string(address, True), _NO_TAGS))


def read_envelope(reader: RequestReader) -> Envelope:
    """Read the body of an Envelope request. Its frame is valid as long as that of the reader. Raises ProtocolError."""
    frame, identity, address = reader.nullable_bytes(), reader.nullable_bytes(), reader.nullable_bytes()
    reader.end_struct()
    if frame is None or identity is None or address is None or len(frame) < FIXED_SIZE:
        raise ProtocolError("malformed", "an envelope needs a request, a principal and a client address")
    try:
        host = str(ip_address(bytes(address)))
    except ValueError:
        raise ProtocolError("malformed", "the client address of an envelope has neither 4 nor 16 bytes") from None
    return Envelope(frame, _principal(identity), host)


def _principal(identity: memoryview) -> Principal:
    reader = RequestReader(identity, 0, flexible=True)
    (version,) = reader.fixed(_INT16)
    if version != _PRINCIPAL_VERSION:
        raise ProtocolError("malformed", f"version {version} of a principal in an envelope is not known")
    found = Principal(reader.string(), reader.string())
    reader.fixed(_BOOLEAN)
    reader.end_struct()
    return found


def pack_enveloped(answer: Parts | None, code: int) -> Sequence[bytes | memoryview]:
    """Return the body of an Envelope response, in pieces.

    `answer` has the frame of the answer, without its size field; it is not copied, unless it is short.
    """
    end = _INT16.pack(code) + _NO_TAGS
    if answer is None:
        return (write_uvarint(0) + end,)
    size = sum(map(len, answer))
    pieces: tuple[bytes | memoryview, ...] = (write_uvarint(size + 1), *answer, end)
    return (b"".join(pieces),) if size <= SHORT_BYTES else pieces


def read_enveloped(body: Parts, api_key: int, version: int) -> tuple[Parts | None, ErrorCode]:
    """Return the body of the answer in an Envelope response, and the error code. Raises ProtocolError."""
    whole = sum(map(len, body))
    length, at = read_uvarint(joined(section(body, 0, _VARINT_BYTES_MAX)) if body else b"", 0)
    end = at + max(length - 1, 0)
    if end > whole:
        raise ProtocolError("truncated", "the answer in an envelope is cut short")
    reader = RequestReader(joined(section(body, end, whole)), 0, flexible=True)
    (code,) = reader.fixed(_INT16)
    reader.end_struct()
    if not length:
        return None, ErrorCode(int(code))
    header = len(response_prefix(api_key, version, 0, 0)) - _SIZE_BYTES
    return section(body, at + header, end), ErrorCode(int(code))
