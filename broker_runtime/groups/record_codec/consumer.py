"""Groups of KIP-848: types 3, 5, 6, 7, 8 and 16, whose values are flexible and only have version 0. Pure.

Values are encoded in parts of a microsecond or two each. Decoding damaged bytes raises ValueError or ProtocolError.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from uuid import UUID

from broker_runtime.groups.record_codec.texts import (
    INT8,
    INT32,
    INT64,
    NO_TAGS,
    compact,
    compact_array,
    compact_blob,
    compact_count,
    compact_nullable,
    compact_numbers,
    numbers_of,
    tagged,
)
from broker_runtime.groups.records import (
    Assignment,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from broker_runtime.wire.encoding.reader import RequestReader

_EPOCHS_AND_STATE = Struct(">iib")
_TWO_LONGS = Struct(">qq")
_NULL, _PRESENT = b"\x00", b"\x01"
"""The byte in place of a null struct, and the one before a present struct.

Kafka always writes the tagged field of a member's classic metadata.
"""


def write_group(value: ConsumerGroupMetadataValue) -> Iterator[bytes]:
    hashed = [(0, INT64.pack(value.metadata_hash))] if value.metadata_hash else []
    yield INT32.pack(value.epoch) + tagged(hashed)


def read_group(reader: RequestReader) -> ConsumerGroupMetadataValue:
    (epoch,) = reader.fixed(INT32)
    return ConsumerGroupMetadataValue(epoch, _tagged_long(reader))


def write_target(value: ConsumerGroupTargetAssignmentMetadataValue) -> Iterator[bytes]:
    timed = [(0, INT64.pack(value.assignment_timestamp_ms))] if value.assignment_timestamp_ms else []
    yield INT32.pack(value.assignment_epoch) + tagged(timed)


def read_target(reader: RequestReader) -> ConsumerGroupTargetAssignmentMetadataValue:
    (epoch,) = reader.fixed(INT32)
    return ConsumerGroupTargetAssignmentMetadataValue(epoch, _tagged_long(reader))


def _tagged_long(reader: RequestReader) -> int:
    content = reader.tagged_field(0)
    if content is None:
        return 0
    found: int = INT64.unpack(content)[0]
    return found


def write_member(value: ConsumerGroupMemberMetadataValue) -> Iterator[bytes]:
    names = value.subscribed_topic_names
    classic = value.classic_member_metadata
    yield compact_nullable(value.instance_id) + compact_nullable(value.rack_id)
    yield compact(value.client_id) + compact(value.client_host)
    yield compact_count(len(names))
    yield from map(compact, names)
    yield compact_nullable(value.subscribed_topic_regex)
    yield INT32.pack(value.rebalance_timeout_ms) + compact_nullable(value.server_assignor)
    yield tagged([(0, _NULL if classic is None else _PRESENT + _written_classic(classic))])


def _written_classic(classic: ClassicMemberMetadata) -> bytes:
    protocols = classic.supported_protocols
    items = (compact(name) + compact_blob(metadata) + NO_TAGS for name, metadata in protocols)
    return INT32.pack(classic.session_timeout_ms) + compact_array(len(protocols), items) + NO_TAGS


def read_member(reader: RequestReader) -> ConsumerGroupMemberMetadataValue:
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    names = _strings(reader)
    regex = reader.nullable_string()
    (rebalance_timeout_ms,) = reader.fixed(INT32)
    assignor = reader.nullable_string()
    content = reader.tagged_field(0)
    classic = None if content is None else _read_classic(RequestReader(content, 0, flexible=True))
    return ConsumerGroupMemberMetadataValue(
        instance_id, rack_id, client_id, client_host, names, regex, rebalance_timeout_ms, assignor, classic
    )


def _read_classic(reader: RequestReader) -> ClassicMemberMetadata | None:
    if reader.fixed(INT8)[0] <= 0:
        return None
    (session_timeout_ms,) = reader.fixed(INT32)
    protocols = []
    for _ in range(reader.array_length()):
        name, metadata = reader.string(), reader.nullable_bytes()
        if metadata is None:
            raise ValueError("a byte string is null")
        reader.end_struct()
        protocols.append(ClassicProtocol(name, bytes(metadata)))
    reader.end_struct()
    return ClassicMemberMetadata(session_timeout_ms, tuple(protocols))


def write_target_member(value: ConsumerGroupTargetAssignmentMemberValue) -> Iterator[bytes]:
    yield from _written(value.topic_partitions, {})
    yield NO_TAGS


def read_target_member(reader: RequestReader) -> ConsumerGroupTargetAssignmentMemberValue:
    partitions, _ = _assignment(reader)
    reader.end_struct()
    return ConsumerGroupTargetAssignmentMemberValue(partitions)


def write_current(value: ConsumerGroupCurrentMemberAssignmentValue) -> Iterator[bytes]:
    yield _EPOCHS_AND_STATE.pack(value.member_epoch, value.previous_member_epoch, value.state)
    yield from _written(value.assigned_partitions, value.assigned_epochs)
    yield from _written(value.partitions_pending_revocation, value.pending_revocation_epochs)
    yield NO_TAGS


def read_current(reader: RequestReader) -> ConsumerGroupCurrentMemberAssignmentValue:
    epoch, previous, state = reader.fixed(_EPOCHS_AND_STATE)
    assigned, assigned_epochs = _assignment(reader)
    pending, pending_epochs = _assignment(reader)
    reader.end_struct()
    return ConsumerGroupCurrentMemberAssignmentValue(
        epoch, previous, state, assigned, pending, assigned_epochs, pending_epochs
    )


def write_regex(value: ConsumerGroupRegularExpressionValue) -> Iterator[bytes]:
    yield compact_count(len(value.topics))
    yield from map(compact, value.topics)
    yield _TWO_LONGS.pack(value.version, value.timestamp_ms) + NO_TAGS


def read_regex(reader: RequestReader) -> ConsumerGroupRegularExpressionValue:
    topics = _strings(reader)
    version, timestamp_ms = reader.fixed(_TWO_LONGS)
    reader.end_struct()
    return ConsumerGroupRegularExpressionValue(topics, version, timestamp_ms)


def _written(assignment: Assignment, epochs: Mapping[UUID, tuple[int, ...]]) -> Iterator[bytes]:
    yield compact_count(len(assignment))
    for topic_id, partitions in assignment.items():
        since = epochs.get(topic_id)
        yield topic_id.bytes + compact_numbers(partitions)
        yield NO_TAGS if since is None else tagged([(0, compact_numbers(since))])


def _assignment(reader: RequestReader) -> tuple[Assignment, Mapping[UUID, tuple[int, ...]]]:
    """Read the partitions by topic, and the epochs since which the member has them, if the record has these."""
    assignment, epochs = {}, {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        assignment[topic_id] = _numbers(reader)
        since = reader.tagged_field(0)
        if since is not None and since[0]:
            epochs[topic_id] = _numbers(RequestReader(since, 0, flexible=True))
    return assignment, epochs


def _numbers(reader: RequestReader) -> tuple[int, ...]:
    return reader.fixed(numbers_of(reader.array_length()))


def _strings(reader: RequestReader) -> tuple[str, ...]:
    return tuple([reader.string() for _ in range(reader.array_length())])
