"""The table of record types, with the functions that encode and decode each. Pure."""

import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from broker_runtime.errors import ProtocolError
from broker_runtime.groups.record_codec import classic, consumer, offsets, push
from broker_runtime.groups.record_codec.damage import DamagedRecordError
from broker_runtime.groups.record_codec.texts import INT16, plain
from broker_runtime.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupRecord,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetValue,
    PushMemberKey,
    Value,
)
from broker_runtime.slicing.steps import Steps, listed
from broker_runtime.storage.records.batching import KeyValue
from broker_runtime.wire.encoding.reader import RequestReader

_PARTITION_METADATA = 4


class _Type(NamedTuple):
    """One type of record. `fields` are those of its key, which are all texts. `write` and `read` include the version.

    `write` returns the value in parts, because some values take longer than one step may take.
    """

    number: int
    key: Callable[..., Key]
    fields: tuple[str, ...]
    write: Callable[[Any], Iterable[bytes]]
    read: Callable[[bytes], Value | None]


def _flexible(
    number: int,
    key: Callable[..., Key],
    fields: tuple[str, ...],
    write: Callable[[Any], Iterable[bytes]],
    read: Callable[[RequestReader], Value],
) -> _Type:
    def read_version_0(value: bytes) -> Value:
        (version,) = INT16.unpack_from(value)
        if version != 0:
            raise ValueError(f"version {version} is not known")
        return read(RequestReader(memoryview(value), 2, flexible=True))

    return _Type(number, key, fields, lambda value: chain((b"\x00\x00",), write(value)), read_version_0)


def _write_group(value: Any) -> Iterable[bytes]:
    return (classic.write_group(value),)


def _read_group(value: bytes) -> Value:
    return classic.read_group(INT16.unpack_from(value)[0], memoryview(value)[2:])


def _unwritten(value: object) -> Iterable[bytes]:
    raise TypeError(f"only brokers before 4.1 write {value}")


_GROUP = ("group_id",)
_MEMBER = ("group_id", "member_id")
_TYPES = (
    _Type(2, GroupMetadataKey, _GROUP, _write_group, _read_group),
    _flexible(3, ConsumerGroupMetadataKey, _GROUP, consumer.write_group, consumer.read_group),
    # A hash in the group's record has replaced this record's value; only its tombstone has a meaning.
    _Type(_PARTITION_METADATA, ConsumerGroupPartitionMetadataKey, _GROUP, _unwritten, lambda _: None),
    _flexible(5, ConsumerGroupMemberMetadataKey, _MEMBER, consumer.write_member, consumer.read_member),
    _flexible(6, ConsumerGroupTargetAssignmentMetadataKey, _GROUP, consumer.write_target, consumer.read_target),
    _flexible(
        7, ConsumerGroupTargetAssignmentMemberKey, _MEMBER, consumer.write_target_member, consumer.read_target_member
    ),
    _flexible(8, ConsumerGroupCurrentMemberAssignmentKey, _MEMBER, consumer.write_current, consumer.read_current),
    _flexible(
        16,
        ConsumerGroupRegularExpressionKey,
        ("group_id", "regular_expression"),
        consumer.write_regex,
        consumer.read_regex,
    ),
    _flexible(push.MEMBER_TYPE, PushMemberKey, ("group_id", "consumer_id"), push.write_member, push.read_member),
)
_BY_NUMBER: Mapping[int, _Type] = {found.number: found for found in _TYPES}
_BY_KEY: Mapping[Any, _Type] = {found.key: found for found in _TYPES}
_PARTS_AT_ONCE_MAX = 256
_LONG: Mapping[Any, Callable[[Any], bool]] = {
    ConsumerGroupMemberMetadataKey: lambda value: len(value.subscribed_topic_names) > _PARTS_AT_ONCE_MAX,
    ConsumerGroupTargetAssignmentMemberKey: lambda value: len(value.topic_partitions) > _PARTS_AT_ONCE_MAX,
    ConsumerGroupCurrentMemberAssignmentKey: lambda value: (
        len(value.assigned_partitions) + len(value.partitions_pending_revocation) > _PARTS_AT_ONCE_MAX
    ),
    ConsumerGroupRegularExpressionKey: lambda value: len(value.topics) > _PARTS_AT_ONCE_MAX,
}
"""Whether encoding a value takes long, by the type of its key."""
_OFFSET_TYPES = (offsets.TYPE, offsets.LEGACY_TYPE)


def encode(record: GroupRecord) -> KeyValue:
    """Encode a record of a group without a break.

    Raises KafkaError (INVALID_REQUEST) for a text that is too long for the format.
    """
    key, value = record
    if isinstance(key, OffsetCommitKey):
        return offsets.write_key(key), None if value is None else offsets.write_value(_offset(value))
    kind = _BY_KEY[type(key)]
    return _written_key(kind, key), None if value is None else b"".join(kind.write(value))


def encoding(record: GroupRecord) -> KeyValue | Steps[KeyValue]:
    """Encode the record, in steps if its value is long."""
    is_long = _LONG.get(type(record.key))
    if is_long is None or record.value is None or not is_long(record.value):
        return encode(record)
    return _encode(record)


def _encode(record: GroupRecord) -> Steps[KeyValue]:
    kind = _BY_KEY[type(record.key)]
    parts = yield from listed(kind.write(record.value))
    return _written_key(kind, record.key), b"".join(parts)


def _written_key(kind: _Type, key: Key) -> bytes:
    return b"".join((INT16.pack(kind.number), *[plain(getattr(key, field)) for field in kind.fields]))


def _offset(value: Value) -> OffsetCommitValue:
    """Return the offset of a commit. A transaction's offset has the same bytes, in a batch of its producer."""
    if isinstance(value, PendingOffsetValue):
        return value.commit
    if not isinstance(value, OffsetCommitValue):
        raise TypeError(f"{value} is not an offset")
    return value


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """Decode a record of a group.

    Returns None for a type that only newer or other coordinators write. Raises DamagedRecordError.
    """
    if key is None or len(key) < 2:
        raise DamagedRecordError("a record has no key with its type")
    number = key[0] << 8 | key[1]
    if number in _OFFSET_TYPES:
        return _decode_offset(key, value)
    kind = _BY_NUMBER.get(number)
    if kind is None:
        return None
    try:
        reader = RequestReader(memoryview(key), 2, flexible=False)
        found = kind.key(*[reader.string() for _ in kind.fields])
    except (ProtocolError, ValueError, struct.error) as error:
        raise DamagedRecordError(f"the key of a record of type {number} is damaged: {error}") from None
    try:
        return GroupRecord(found, None if value is None else kind.read(value))
    except (ProtocolError, ValueError, struct.error, IndexError) as error:
        raise DamagedRecordError(f"the record of type {number} at {found} is damaged: {error}") from None


def _decode_offset(key: bytes, value: bytes | None) -> GroupRecord:
    try:
        found = offsets.read_key(key)
    except (ValueError, struct.error) as error:
        raise DamagedRecordError(f"the key of an offset is damaged: {error}") from None
    try:
        return GroupRecord(found, None if value is None else offsets.read_value(value))
    except (ProtocolError, ValueError, struct.error) as error:
        raise DamagedRecordError(f"the offset at {found} is damaged: {error}") from None
