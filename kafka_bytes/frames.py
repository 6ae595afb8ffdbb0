"""Frames, which begin with their size, and the header of a request before flexible versions. Pure."""

from struct import Struct

SIZE = Struct(">i")
"""The size of a frame, which does not include the size field."""
REQUEST_HEAD = Struct(">hhih")
"""API key, version, correlation id, and the length of the client id, -1 for null; the client id follows (KIP-482).

A flexible request then has tagged fields.
"""


def frame(*parts: bytes) -> bytes:
    """Join parts to a frame with its size."""
    body = b"".join(parts)
    return SIZE.pack(len(body)) + body


def request_frame(api_key: int, version: int, correlation_id: int, client_id: str, body: bytes = b"") -> bytes:
    """Return a whole request, with the header of versions that are not flexible."""
    name = client_id.encode()
    return frame(REQUEST_HEAD.pack(api_key, version, correlation_id, len(name)), name, body)
