"""UUIDs as Kafka prints them: 22 characters of URL-safe base64. Pure."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def encode_uuid(value: UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> UUID:
    """Parse the text of a UUID. Raises ValueError for any other text."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))
