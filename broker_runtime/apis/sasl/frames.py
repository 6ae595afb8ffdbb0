"""The requests of an exchange: SaslHandshake (17) and SaslAuthenticate (36), read and answered. Pure."""

from broker_runtime.errors import ErrorCode, ProtocolError
from broker_runtime.wire.encoding.varint import skip_tagged_fields
from broker_runtime.wire.header import FIXED_SIZE, read_header, response_prefix
from broker_runtime.wire.limits import DEFAULT_LIMITS
from broker_runtime.wire.messages import Entity, Fields, decode_request, encode_response, message_type
from broker_runtime.wire.refusal import refusal
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import FORMATS, OWN_KEYS_FROM, SASL_AUTHENTICATE, SASL_HANDSHAKE

HANDSHAKE_VERSIONS = (0, 1)
"""The served versions of SaslHandshake.

Version 2 must never exist: clients up to 2.4 would negotiate it wrongly (KAFKA-9577).
"""
AUTHENTICATE_VERSIONS = (0, 2)
_VERSIONS = {SASL_HANDSHAKE: HANDSHAKE_VERSIONS, SASL_AUTHENTICATE: AUTHENTICATE_VERSIONS}
_LIFETIME_SINCE = 1


def import_messages() -> None:
    """Import the SASL messages now: an import at the first request would block the event loop."""
    for key, (low, high) in _VERSIONS.items():
        for version in range(low, high + 1):
            message_type(key, version, "Request")
            message_type(key, version, "Response")


def api_key_of(frame: memoryview) -> int | None:
    """Return the API key of a frame; None if the frame is too short for a header."""
    return None if len(frame) < FIXED_SIZE else int.from_bytes(frame[:2], "big", signed=True)


class SaslRequest:
    """One request of a SASL exchange: its header, and its body if it is a SASL request of a supported version."""

    __slots__ = ("body", "correlation_id", "key", "version")

    def __init__(self, frame: memoryview) -> None:
        """Read the header, and the body of a SASL request of a supported version. Raises ProtocolError."""
        self.key, self.version, self.correlation_id, _, at = read_header(frame)
        self.body: Entity | None = None
        low, high = _VERSIONS.get(self.key, (0, -1))
        if low <= self.version <= high:
            if self.version >= FORMATS[self.key].flexible_from:
                at = skip_tagged_fields(frame, at, DEFAULT_LIMITS)
            self.body = decode_request(self.key, self.version, frame[at:])

    def answer(self, fields: Fields) -> Reply:
        return (encode_response(self.key, self.version, self.correlation_id, fields),)

    def authenticated(self, token: bytes, lifetime_ms: int = 0) -> Reply:
        """Return the answer to SaslAuthenticate that has no error.

        The answer's message is empty, as in Apache Kafka.
        """
        fields = {"error_code": ErrorCode.NONE, "error_message": "", "auth_bytes": token}
        return self.answer({**fields, "session_lifetime": lifetime_ms})

    @property
    def shows_lifetime(self) -> bool:
        """Return whether the answer contains the lifetime of the session."""
        return self.version >= _LIFETIME_SINCE

    def failed(self, text: str) -> Reply:
        """Return the answer to SaslAuthenticate that refuses the client."""
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return self.answer({"error_code": code, "error_message": text, "auth_bytes": b""})

    def illegal(self) -> Reply | None:
        """Return the answer to a request that is not allowed now; None if that answer has no field for an error."""
        form = FORMATS.get(self.key)
        if form is None or self.key >= OWN_KEYS_FROM:
            return None
        text = "the client has to authenticate first"
        try:
            body = refusal(self.key, self.version, ErrorCode.ILLEGAL_SASL_STATE, text)
        except (ImportError, AttributeError, ProtocolError):
            return None
        if body is None:
            return None
        return (response_prefix(self.key, self.version, self.correlation_id, len(body)) + body,)


def error_of(reply: Reply) -> int:
    """Return the error code of an ApiVersions response, which is the first field of its body."""
    return int.from_bytes(bytes(reply[0][8:10]), "big", signed=True)  # type: ignore[index]


def raw(token: bytes) -> Reply:
    """Return the frame of a token without a header, as after version 0 of SaslHandshake."""
    return (len(token).to_bytes(4, "big") + token,)
