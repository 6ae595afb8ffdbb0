"""Groups of the classic protocol: type 2. Pure.

Versions of the value: 0 to 4 are read, 3 is written, as by Apache Kafka 4.3.
"""

from broker_runtime.groups.record_codec.texts import INT16, INT32, INT64, blob, nullable, plain
from broker_runtime.groups.records import ClassicMember, GroupMetadataValue
from broker_runtime.wire.encoding.reader import RequestReader

_VERSION_WRITTEN = 3
_FIRST_FLEXIBLE = 4
_FIRST_WITH_REBALANCE_TIMEOUT, _FIRST_WITH_TIMESTAMP, _FIRST_WITH_INSTANCE_ID = 1, 2, 3


def write_group(value: GroupMetadataValue) -> bytes:
    head = (
        INT16.pack(_VERSION_WRITTEN),
        plain(value.protocol_type),
        INT32.pack(value.generation),
        nullable(value.protocol),
        nullable(value.leader),
        INT64.pack(value.current_state_timestamp_ms),
        INT32.pack(len(value.members)),
    )
    if value.packed_members is not None:
        return b"".join((*head, value.packed_members))
    return b"".join((*head, *map(write_member, value.members)))


def write_member(member: ClassicMember) -> bytes:
    """Encode a member of a classic group. Raises KafkaError (INVALID_REQUEST) if a text is too long for the format."""
    return b"".join(
        (
            plain(member.member_id),
            nullable(member.group_instance_id),
            plain(member.client_id),
            plain(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            blob(member.subscription),
            blob(member.assignment),
        )
    )


def read_group(version: int, value: memoryview) -> GroupMetadataValue:
    """Decode a classic group from the bytes after the record's version. Raises ValueError and ProtocolError."""
    if not 0 <= version <= _FIRST_FLEXIBLE:
        raise ValueError(f"version {version} is not known")
    reader = RequestReader(value, 0, flexible=version >= _FIRST_FLEXIBLE)
    protocol_type = reader.string()
    (generation,) = reader.fixed(INT32)
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    since_ms = reader.fixed(INT64)[0] if version >= _FIRST_WITH_TIMESTAMP else -1
    members = tuple([_read_member(reader, version) for _ in range(reader.array_length())])
    reader.end_struct()
    return GroupMetadataValue(protocol_type, generation, protocol, leader, since_ms, members)


def _read_member(reader: RequestReader, version: int) -> ClassicMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _FIRST_WITH_INSTANCE_ID else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.fixed(INT32)[0] if version >= _FIRST_WITH_REBALANCE_TIMEOUT else -1
    (session_timeout_ms,) = reader.fixed(INT32)
    subscription, assignment = _bytes(reader), _bytes(reader)
    reader.end_struct()
    return ClassicMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _bytes(reader: RequestReader) -> bytes:
    found = reader.nullable_bytes()
    if found is None:
        raise ValueError("a byte string is null")
    return bytes(found)
