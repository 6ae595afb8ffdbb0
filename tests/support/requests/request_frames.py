"""Complete requests as one broker sends them to another."""

from broker_runtime.wire.messages import Fields, encode_request_body, frame_request
from broker_runtime.wire.versions import FORMATS


def encode_request(api_key: int, version: int, correlation_id: int, content: Fields) -> bytes:
    """A request, including the size field."""
    return frame_request(api_key, version, correlation_id, encode_request_body(api_key, version, content))


def is_flexible(api_key: int, version: int) -> bool:
    return version >= FORMATS[api_key].flexible_from
