"""Frames, which begin with their size, and the header of a request before flexible versions. Pure."""

from struct import Struct

SIZE = Struct(">i")
"""The layout of a frame's size field. The size does not include this field."""
REQUEST_HEAD = Struct(">hhih")
"""The layout of a request's fixed fields: API key, version, correlation id, length of the client id (-1: null).

The client id follows and, in a flexible request, tagged fields (KIP-482).
"""


def frame(*parts: bytes) -> bytes:
    """Join parts to a frame, preceded by its size."""
    body = b"".join(parts)
    return SIZE.pack(len(body)) + body


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str, body: bytes = b"") -> bytes:
    """Return a whole request frame, with a header that is not flexible."""
    name = client_id.encode()
    return frame(REQUEST_HEAD.pack(api_key, version, correlation_id, len(name)), name, body)
