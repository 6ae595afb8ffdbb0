"""The layout of events in a spool file, for the writer: `spool` in schemas/audit_event.v1.json defines it. Pure.

tests/contract/test_audit_schema.py compares this module with the schema.
"""

from struct import Struct
from typing import Final

import msgspec

from kafka_bytes.checksum import crc32c

SCHEMA_VERSION: Final = 1
MAGIC: Final = b"SGAUDIT1"
BLOCK_MARK: Final = b"SGAB"

HEAD_BYTES: Final = 20
RESERVED_AT: Final = len(MAGIC)
_RESERVED: Final = Struct("<Q")
_CHECKSUM: Final = Struct("<I")
_BLOCK_HEAD: Final = Struct("<4sII")

REQUEST_ROW: Final = Struct("<IHhhiIQdddBBbhiI")
PARTITION_ROW: Final = Struct("<IIiqiqqqqh")
PAIR_ROW: Final = Struct(REQUEST_ROW.format + PARTITION_ROW.format[1:])

NO_REFUSAL: Final = 255
UNKNOWN_ERROR: Final = -32_768
"""The code of an unknown error. Kafka's codes begin at -1."""

ENDINGS: Final = {"answered": 0, "refused": 1, "hung up": 2, "cancelled": 3}

_encode = msgspec.msgpack.Encoder().encode


def packed_reserved(seq: int) -> bytes:
    """Encode the field behind the magic: the highest number that may have been assigned to an event."""
    number = _RESERVED.pack(seq)
    return number + _CHECKSUM.pack(crc32c(number))


def packed_block(kind: str, *fields: object) -> bytes:
    """Encode a block of this kind with its fields in the schema's order."""
    payload = _encode((kind, *fields))
    return _BLOCK_HEAD.pack(BLOCK_MARK, len(payload), crc32c(payload)) + payload


def spool_name(boot_id: str, segment: int) -> str:
    return f"{boot_id}-{segment:08d}.spool"


def lock_name(boot_id: str) -> str:
    return f"{boot_id}.lock"
