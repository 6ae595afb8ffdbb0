"""Parses spool files into a header, blocks and damaged ranges. Pure.

A file may still be written, end anywhere because of a power loss, or be damaged anywhere: all complete blocks are
found, and the rest is reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

import msgspec

from audit_pipeline.contract import contract
from kafka_bytes.checksum import crc32c

_SPOOL = contract().spool
_MAGIC: bytes = _SPOOL["magic"].encode()
_MARK: bytes = _SPOOL["block_mark"].encode()
_RESERVED = Struct("<QI")
HEAD_BYTES = len(_MAGIC) + _RESERVED.size
"""Size in bytes of the part of a spool before its first block."""
_BLOCK_HEAD = Struct("<4sII")
_decode = msgspec.msgpack.Decoder(tuple).decode

SUFFIX = ".spool"
UNKNOWN_SEQ = 0
"""The first number of a file without a header, if no earlier file provides the number."""


class NoSpoolError(ValueError):
    """Error for a spool without a header: the origin of its events is unknown."""


class OtherVersionError(ValueError):
    """Error for a spool of a broker with a schema version that this reader does not know."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a spool file, with the broker and the boot that wrote it."""

    schema_version: int
    cluster_id: str
    broker_id: int
    boot_id: str
    segment: int
    first_seq: int
    opened_us: int
    api_names: dict[int, str]


@dataclass(frozen=True, slots=True)
class EventBlock:
    """A block of events in a spool, see `spool` in the schema."""

    first_seq: int
    last_seq: int
    wall_us: int
    monotonic_s: float
    clients: list[list[Any]]
    topics: list[str]
    refusals: list[str]
    request_rows: bytes
    partition_rows: bytes
    pair_rows: bytes
    others: list[list[Any]]


@dataclass(frozen=True, slots=True)
class End:
    """The last entry of a spool file that is complete. `how` is next or stopped."""

    last_seq: int
    closed_us: int
    how: str


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage in a spool: bytes that are not a complete block."""

    offset: int
    length: int


@dataclass(slots=True)
class SpoolContent:
    """The content of a spool: all complete parts of its file.

    `reserved` is the highest number that may have been assigned to an event, None if it is damaged.
    """

    reserved: int | None
    header: Header
    blocks: list[EventBlock]
    end: End | None
    damages: list[Damage]


def read_spool(data: bytes, instead: Header | None = None) -> SpoolContent:
    """Parse the bytes of an audit log's spool file. `instead` replaces a header that is not complete.

    Raises NoSpoolError if there is neither, and OtherVersionError.
    """
    header: Header | None = None
    events: list[EventBlock] = []
    end: End | None = None
    damages: list[Damage] = []
    for found in blocks(data, HEAD_BYTES):
        match found:
            case Damage():
                damages.append(found)
            case Header():
                header = found
            case EventBlock():
                # A part of a file that occurs twice in it does not yield events twice.
                if not events or found.first_seq > events[-1].last_seq:
                    events.append(found)
            case End():
                end = found
    header = header or instead
    if header is None:
        raise NoSpoolError("its header is damaged or not written yet")
    if header.first_seq == UNKNOWN_SEQ:
        header = replace(header, first_seq=events[0].first_seq if events else 1)
    return SpoolContent(_reserved(data), header, events, end, damages)


def read_header(data: bytes) -> Header | None:
    """Return the header of a spool or of a lock file."""
    for at in (HEAD_BYTES, 0):
        found, _ = _block(data, at)
        if isinstance(found, Header):
            return found
    return None


def whole_blocks(data: bytes, at: int = 0) -> Iterator[tuple[Header | EventBlock | End | Damage, int]]:
    """Yield each complete block of a spool from `at` on, with its end, and each damage before a block.

    It stops at incomplete data at the end, as in a file that is being written.
    """
    damaged_from: int | None = None
    while 0 <= at < len(data):
        block, end = _block(data, at)
        if block is None:
            if damaged_from is None:
                damaged_from = at
            at = _following(data, at)
            continue
        if damaged_from is not None:
            yield Damage(damaged_from, at - damaged_from), at
            damaged_from = None
        yield block, end
        at = end


def _reserved(data: bytes) -> int | None:
    if len(data) < HEAD_BYTES or not data.startswith(_MAGIC):
        return None
    reserved, checksum = _RESERVED.unpack_from(data, len(_MAGIC))
    number = data[len(_MAGIC) : len(_MAGIC) + 8]
    return int(reserved) if crc32c(number) == checksum else None


def blocks(data: bytes, at: int) -> Iterator[Header | EventBlock | End | Damage]:
    """Yield all complete blocks of a spool from `at` on. After a damaged block the next complete one is searched."""
    for found, end in whole_blocks(data, at):
        yield found
        at = end
    if at < len(data):
        yield Damage(at, len(data) - at)


def _following(data: bytes, at: int) -> int:
    """Return the position at which the next block after a damaged one may begin; -1 if there is none.

    If the damaged block still has its length, its content, which clients influence, is not searched for blocks.
    """
    if data.startswith(_MARK, at) and len(data) - at >= _BLOCK_HEAD.size:
        end = at + _BLOCK_HEAD.size + int(_BLOCK_HEAD.unpack_from(data, at)[1])
        if data.startswith(_MARK, end):
            return end
    return data.find(_MARK, at + 1)


def _block(data: bytes, at: int) -> tuple[Header | EventBlock | End | None, int]:
    """Return the block that begins at `at` and its end, if it is complete."""
    if len(data) - at < _BLOCK_HEAD.size:
        return None, at
    mark, length, checksum = _BLOCK_HEAD.unpack_from(data, at)
    begin = at + _BLOCK_HEAD.size
    if mark != _MARK or length > len(data) - begin:
        return None, at
    payload = memoryview(data)[begin : begin + length]
    if crc32c(payload) != checksum:
        return None, at
    try:
        kind, *fields = _decode(payload)
        version = fields[0] if kind == "header" else contract().version
        block = _KINDS[kind](*fields) if version == contract().version else None
    except (msgspec.DecodeError, ValueError, TypeError, LookupError):
        # The checksum of no bytes is zero: zeros after a mark, left by a power loss, match it.
        return None, at
    if block is None:
        raise OtherVersionError(f"it has schema version {version}, but this reader knows version {contract().version}")
    return block, begin + length


_KINDS: dict[str, Any] = {"header": Header, "events": EventBlock, "end": End}
