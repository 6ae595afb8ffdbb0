"""Metadata records as bytes: the controller writes them to its journal and every broker reads them from it.

Pure. One record is one journal record's value: a version byte, then MessagePack (msgspec) of a tagged struct. A change
that old readers could misread needs a new version; a new field with a default does not.
"""

from typing import Any, Union

import msgspec

from broker_runtime.metadata.image import RECORD_TYPES
from broker_runtime.metadata.record import MetadataRecord

_VERSION = 1
_ENCODER = msgspec.msgpack.Encoder(uuid_format="bytes")
_KINDS: Any = Union[tuple(RECORD_TYPES)]  # noqa: UP007 - made of the table, which only runs can read
_DECODER: msgspec.msgpack.Decoder[MetadataRecord] = msgspec.msgpack.Decoder(_KINDS)


class RecordFormatError(Exception):
    """Error for bytes that are not a metadata record of a version that this node knows."""


def encode_record(record: MetadataRecord) -> bytes:
    return bytes((_VERSION,)) + _ENCODER.encode(record)


def decode_record(value: bytes | None) -> MetadataRecord:
    """Parse one metadata record. Raises RecordFormatError."""
    if not value or value[0] != _VERSION:
        found = "nothing" if not value else f"version {value[0]}"
        raise RecordFormatError(f"a metadata record of version {_VERSION} was expected, found {found}")
    try:
        return _DECODER.decode(memoryview(value)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordFormatError(f"a metadata record cannot be read: {error}") from error
