"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152, KIP-368), in the versions that Kafka has had since 2.2. Pure."""

from typing import NamedTuple

from sluicegate_consumer.wire.fields import INT16, INT32, INT64, Cursor, text
from sluicegate_consumer.wire.kafka import Request

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 1


class Handshake(NamedTuple):
    """A broker's answer to SaslHandshake: an error code, and the mechanisms that the listener accepts."""

    error_code: int
    mechanisms: tuple[str, ...]


class Authenticated(NamedTuple):
    """A broker's answer to SaslAuthenticate. `lifetime_ms` is 0 if the session does not end."""

    error_code: int
    error_message: str | None
    challenge: bytes
    lifetime_ms: int


def handshake_request(mechanism: str) -> Request:
    return Request(SASL_HANDSHAKE, _HANDSHAKE_VERSION, text(mechanism))


def read_handshake(body: memoryview) -> Handshake:
    """Parse the broker's answer to SaslHandshake. Raises ProtocolError."""
    cursor = Cursor(body)
    found = Handshake(cursor.number(INT16), cursor.items(INT32, lambda each: each.text()))
    cursor.end()
    return found


def authenticate_request(token: bytes) -> Request:
    return Request(SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, INT32.pack(len(token)) + token)


def read_authenticated(body: memoryview) -> Authenticated:
    """Parse the broker's answer to SaslAuthenticate. Raises ProtocolError."""
    cursor = Cursor(body)
    code, message = cursor.number(INT16), cursor.nullable_text()
    challenge = bytes(cursor.view(cursor.number(INT32)))
    found = Authenticated(code, message, challenge, cursor.number(INT64))
    cursor.end()
    return found
