"""Offset commits: nearly all records of a partition of __consumer_offsets, so each is decoded in few operations. Pure.

Versions of the value: 0 to 4 are read. Version 4 is written, as by Apache Kafka 4.3, and version 1 if the offset has
its own time of expiry.
"""

from functools import lru_cache
from struct import Struct
from sys import intern
from uuid import UUID

from broker_runtime.groups.record_codec.texts import INT16, INT32, NO_TAGS, plain, raw
from broker_runtime.groups.records import OffsetCommitKey, OffsetCommitValue
from broker_runtime.remembering import remembered
from broker_runtime.wire.encoding.reader import RequestReader
from kafka_bytes.varints import write_uvarint

TYPE = 1
LEGACY_TYPE = 0
"""The record type of offset commits before Kafka 0.9.

Its values are versions 0 and 1 of the current type's values.
"""
_WITH_EPOCH = Struct(">hqi")
_WITH_EPOCH_AND_LENGTH = Struct(">hqiB")
_WITHOUT_EPOCH = Struct(">hq")
_USUAL = Struct(">hqiBq3s16s")
"""Version 4 without metadata and with a topic id, as nearly all values are."""
_TIME, _TWO_TIMES = Struct(">q"), Struct(">qq")
_KEY_HEAD = Struct(">hh")
_LONG_LENGTH = 0x80
"""Compact lengths from this value on have several bytes."""
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tagged field, number 0, of 16 bytes."""
_TOPIC_ID_LENGTH = 19
_VERSION_WRITTEN, _VERSION_WITH_EXPIRY, _FIRST_WITH_EPOCH = 4, 1, 3
_VERSION_4 = b"\x00\x04"
_NAMES_MAX = 4_096
"""Number of names that are cached while a partition is loaded."""


def write_key(key: OffsetCommitKey) -> bytes:
    return _names_written(key.group_id, key.topic) + INT32.pack(key.partition)


@remembered(_NAMES_MAX)
def _names_written(group_id: str, topic: str) -> bytes:
    """Encode the group and the topic. Cached, because members commit many partitions of few topics repeatedly."""
    group = raw(group_id)
    return _KEY_HEAD.pack(TYPE, len(group)) + group + plain(topic)


def read_key(key: bytes) -> OffsetCommitKey:
    """Decode the key of an offset commit. Raises ValueError and struct.error."""
    group_id, topic = _names(key[2:-4])
    return OffsetCommitKey(group_id, topic, INT32.unpack_from(key, len(key) - 4)[0])


@remembered(_NAMES_MAX)
def _names(names: bytes) -> tuple[str, str]:
    """Decode the group and the topic.

    Hundreds of thousands of offsets name few groups and topics: each name is decoded seldom and is in memory once.
    """
    at = 2 + INT16.unpack_from(names)[0]
    if at < 2 or INT16.unpack_from(names, at)[0] != len(names) - at - 2:
        raise ValueError("its lengths do not fit")
    return intern(str(names[2:at], "utf-8")), intern(str(names[at + 2 :], "utf-8"))


def write_value(value: OffsetCommitValue) -> bytes:
    if value.expire_timestamp_ms is not None:
        head = _WITHOUT_EPOCH.pack(_VERSION_WITH_EXPIRY, value.offset)
        times = _TWO_TIMES.pack(value.commit_timestamp_ms, value.expire_timestamp_ms)
        return head + plain(value.metadata) + times
    if not value.metadata and value.topic_id is not None:
        return _USUAL.pack(
            _VERSION_WRITTEN,
            value.offset,
            value.leader_epoch,
            1,
            value.commit_timestamp_ms,
            _TOPIC_ID_TAG,
            value.topic_id.bytes,
        )
    metadata = raw(value.metadata)
    head = _WITH_EPOCH.pack(_VERSION_WRITTEN, value.offset, value.leader_epoch) + write_uvarint(len(metadata) + 1)
    if value.topic_id is None:
        return head + metadata + _TIME.pack(value.commit_timestamp_ms) + NO_TAGS
    return head + metadata + _TIME.pack(value.commit_timestamp_ms) + _TOPIC_ID_TAG + value.topic_id.bytes


def read_value(value: bytes) -> OffsetCommitValue:
    """Decode the value of an offset commit. Raises ValueError, ProtocolError and struct.error."""
    if value[:2] == _VERSION_4:
        return _read_flexible(value)
    version, offset = _WITHOUT_EPOCH.unpack_from(value)
    if not 0 <= version < _VERSION_WRITTEN:
        raise ValueError(f"version {version} is not known")
    leader_epoch, at = -1, _WITHOUT_EPOCH.size
    if version >= _FIRST_WITH_EPOCH:
        leader_epoch, at = INT32.unpack_from(value, at)[0], at + 4
    end = at + 2 + INT16.unpack_from(value, at)[0]
    if end < at + 2:
        raise ValueError("its text has no length")
    metadata = str(value[at + 2 : end], "utf-8")
    if version != _VERSION_WITH_EXPIRY:
        return OffsetCommitValue(offset, leader_epoch, metadata, _TIME.unpack_from(value, end)[0])
    commit_timestamp_ms, expires_ms = _TWO_TIMES.unpack_from(value, end)
    return OffsetCommitValue(
        offset, leader_epoch, metadata, commit_timestamp_ms, None if expires_ms == -1 else expires_ms
    )


def _read_flexible(value: bytes) -> OffsetCommitValue:
    _, offset, leader_epoch, length = _WITH_EPOCH_AND_LENGTH.unpack_from(value)
    end = _WITH_EPOCH_AND_LENGTH.size + length - 1
    if not 0 < length < _LONG_LENGTH:
        return _read_odd(value, offset, leader_epoch)
    (commit_timestamp_ms,) = _TIME.unpack_from(value, end)
    rest = value[end + 8 :]
    if rest == NO_TAGS:
        topic_id = None
    elif len(rest) == _TOPIC_ID_LENGTH and rest.startswith(_TOPIC_ID_TAG):
        topic_id = _topic_id(rest[-16:])
    else:
        return _read_odd(value, offset, leader_epoch)
    metadata = str(value[_WITH_EPOCH_AND_LENGTH.size : end], "utf-8") if length > 1 else ""
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, None, topic_id)


def _read_odd(value: bytes, offset: int, leader_epoch: int) -> OffsetCommitValue:
    """Decode the value of a commit with long metadata, or with tagged fields that a newer broker wrote."""
    reader = RequestReader(memoryview(value), _WITH_EPOCH.size, flexible=True)
    metadata = reader.string()
    (commit_timestamp_ms,) = reader.fixed(_TIME)
    content = reader.tagged_field(0)
    topic_id = None if content is None else _topic_id(bytes(content))
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, None, topic_id)


@lru_cache(_NAMES_MAX)
def _topic_id(found: bytes) -> UUID | None:
    """Return the topic id; None for the zero id."""
    return UUID(bytes=found) if any(found) else None
