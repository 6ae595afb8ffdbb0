"""Request and response headers, read and written with struct: every request pays for them.

Pure. Request header v1 ends with the client id; v2, used by flexible versions, adds tagged fields (KIP-482). The
response header is the correlation id, and for flexible versions one byte of (no) tagged fields. ApiVersions always
answers with the short header, so that a client that does not know the version yet can read it (KIP-511).
"""

from struct import Struct, error

from broker_runtime.errors import ProtocolError
from broker_runtime.wire.versions import API_VERSIONS, FORMATS
from kafka_bytes.frames import REQUEST_HEAD

FIXED_SIZE = REQUEST_HEAD.size
_SIZE_AND_CORRELATION = Struct(">ii")
_SIZE_CORRELATION_AND_TAGS = Struct(">iix")


RequestHeader = tuple[int, int, int, str | None, int]
"""A request header: API key, version, correlation id, client id, and the offset after the client id.

The body begins at that offset, in flexible versions after a block of tagged fields.
"""


def read_header(frame: memoryview) -> RequestHeader:
    """Return the header of a frame (without its size field).

    Raises ProtocolError if it is cut short or is not UTF-8.
    """
    try:
        api_key, version, correlation_id, length = REQUEST_HEAD.unpack_from(frame)
    except error:
        raise ProtocolError("truncated", f"a request of {len(frame)} bytes is too short for its header") from None
    end = FIXED_SIZE + length if length >= 0 else FIXED_SIZE
    if end > len(frame):
        raise ProtocolError("truncated", "the client id exceeds the end of the request")
    try:
        client_id = str(frame[FIXED_SIZE:end], "utf-8") if length >= 0 else None
    except UnicodeDecodeError:
        raise ProtocolError("malformed", "the client id is not UTF-8") from None
    return api_key, version, correlation_id, client_id, end


def response_prefix(api_key: int, version: int, correlation_id: int, body_size: int) -> bytes:
    """Return the size field and the response header for a body of `body_size` bytes."""
    flexible = version >= FORMATS[api_key].flexible_from and api_key != API_VERSIONS
    return prefix(correlation_id, body_size, flexible)


def prefix(correlation_id: int, body_size: int, flexible: bool) -> bytes:
    """Return size field and response header for a body of `body_size` bytes, but not for ApiVersions.

    The header of ApiVersions is never flexible.
    """
    if flexible:
        return _SIZE_CORRELATION_AND_TAGS.pack(body_size + 5, correlation_id)
    return _SIZE_AND_CORRELATION.pack(body_size + 4, correlation_id)
