"""The encoding of the records of `__transaction_state`, in Apache Kafka's format. Pure.

The key has the number 0 and the transactional id. Version 0 of the value is the old one; version 1 has tagged fields,
and is written when the cluster's transaction version is at least 1.
"""

import struct
from collections.abc import Iterator, Mapping
from struct import Struct
from sys import intern

from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.slicing.steps import Steps, at_once, in_order, in_steps_if, pages
from broker_runtime.storage.records.batching import KeyValue
from broker_runtime.transactions.ids.metadata import NONE, Transaction
from broker_runtime.transactions.ids.partition_set import LONG, NO_PARTITIONS, PartitionSet, indexes, mask_of
from broker_runtime.transactions.ids.records import TransactionRecord
from broker_runtime.transactions.ids.states import TransactionState
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.encoding.writer import array_length, string
from kafka_bytes.varints import write_uvarint

ID_BYTES_MAX = 0x7FFF
"""Maximum length of a transactional id in a record, in bytes."""
_NUMBER = 0
_KEY = Struct(">hh")
_HEAD = Struct(">hqhib")
"""Version, producer id, epoch, timeout and state."""
_TIMES = Struct(">qq")
_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
_NULL = -1
_TOPICS_OF_A_STEP = 32
_NUMBERS_OF_A_STEP = 500
_LONG_BYTES = 16_384
"""Length of a value above which it is decoded in steps."""


class DamagedTransactionError(ValueError):
    """Error for bytes that are not a record of a transactional id."""


def encoding(record: TransactionRecord, *, flexible: bool) -> KeyValue | Steps[KeyValue]:
    """Encode the record, in steps if its transaction has very many partitions. `flexible`: write version 1.

    Raises KafkaError(INVALID_REQUEST) for an id that is too long.
    """
    return in_steps_if(is_long(record), _encode(record, flexible))


def is_long(record: TransactionRecord) -> bool:
    """Return whether the record is encoded in steps."""
    return record.transaction is not None and len(record.transaction.partitions) > LONG


def encode(record: TransactionRecord, *, flexible: bool) -> KeyValue:
    """Encode the record without a break. Raises KafkaError(INVALID_REQUEST) for an id that is too long."""
    return at_once(_encode(record, flexible))


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of the id's records. Raises KafkaError(INVALID_REQUEST) for an id that is too long."""
    found = transactional_id.encode()
    if len(found) > ID_BYTES_MAX:
        why = f"a transactional id has {len(found)} bytes; at most {ID_BYTES_MAX} are allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return _KEY.pack(_NUMBER, len(found)) + found


def _encode(record: TransactionRecord, flexible: bool) -> Steps[KeyValue]:
    key, found = encode_key(record.transactional_id), record.transaction
    if found is None:
        return key, None
    content = bytearray(_HEAD.pack(flexible, found.producer_id, found.producer_epoch, found.timeout_ms, found.state))
    if found.state is TransactionState.EMPTY:
        content += b"\x00" if flexible else _INT32.pack(_NULL)
    else:
        yield from _encode_partitions(content, found.partitions.masks, flexible)
    content += _TIMES.pack(found.last_update_ms, found.started_ms)
    if flexible:
        content += _tags(found)
    return key, bytes(content)


def _encode_partitions(content: bytearray, masks: Mapping[str, int], flexible: bool) -> Steps[None]:
    content += array_length(len(masks), flexible)
    for topics in pages((yield from in_order(masks)), _TOPICS_OF_A_STEP):
        for topic in topics:
            mask = masks[topic]
            content += string(topic, flexible) + array_length(mask.bit_count(), flexible)
            for numbers in pages(indexes(mask), _NUMBERS_OF_A_STEP):
                content += struct.pack(f">{len(numbers)}i", *numbers)
                if len(numbers) == _NUMBERS_OF_A_STEP:
                    yield
            if flexible:
                content += b"\x00"
        yield


def _tags(found: Transaction) -> bytes:
    """Encode the tagged fields, of which those with their default value are left out."""
    fields = [
        (tag, layout.pack(value))
        for tag, layout, value, default in (
            (0, _INT64, found.previous_producer_id, NONE),
            (1, _INT64, found.next_producer_id, NONE),
            (2, _INT16, found.client_version, 0),
        )
        if value != default
    ]
    return write_uvarint(len(fields)) + b"".join(
        write_uvarint(tag) + write_uvarint(len(content)) + content for tag, content in fields
    )


def decoding(key: bytes | None, value: bytes | None) -> TransactionRecord | Steps[TransactionRecord | None] | None:
    """Decode a record like `decode`, in steps if it is long."""
    return in_steps_if(value is not None and len(value) > _LONG_BYTES, _decode(key, value))


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Decode a record of a transactional id.

    Returns None for a key or a value of a version that only newer coordinators write. Raises DamagedTransactionError.
    """
    return at_once(_decode(key, value))


def _decode(key: bytes | None, value: bytes | None) -> Steps[TransactionRecord | None]:
    if key is None or len(key) < _KEY.size:
        raise DamagedTransactionError("a record has no key with its version and its transactional id")
    number, length = _KEY.unpack_from(key)
    if number != _NUMBER:
        return None
    if length != len(key) - _KEY.size:
        raise DamagedTransactionError("the lengths of a record's key do not fit")
    try:
        transactional_id = str(key[_KEY.size :], "utf-8")
        if value is None:
            return TransactionRecord(transactional_id, None)
        (version,) = _INT16.unpack_from(value)
        if version not in (0, 1):
            return None
        return TransactionRecord(transactional_id, (yield from _read(value, flexible=bool(version))))
    except (ProtocolError, ValueError, struct.error) as error:
        raise DamagedTransactionError(f"the record with the key {key[:60]!r} is damaged: {error}") from None


def _read(value: bytes, *, flexible: bool) -> Steps[Transaction]:
    _, producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(value)
    reader = RequestReader(memoryview(value), _HEAD.size, flexible)
    partitions = yield from _read_partitions(reader)
    last_update_ms, started_ms = reader.fixed(_TIMES)
    tags = _read_tags(reader) if flexible else {}
    return Transaction(
        producer_id,
        epoch,
        timeout_ms,
        TransactionState(state),
        partitions,
        last_update_ms,
        started_ms,
        _number(tags, 0, _INT64, NONE),
        _number(tags, 1, _INT64, NONE),
        _number(tags, 2, _INT16, 0),
    )


def _read_partitions(reader: RequestReader) -> Steps[PartitionSet]:
    masks, count = dict[str, int](), 0
    for _ in range(reader.nullable_array_length()):
        topic = intern(reader.string())
        mask = yield from mask_of(_read_numbers(reader))
        reader.end_struct()
        if mask:
            before = masks.get(topic, 0)
            masks[topic] = before | mask
            count += masks[topic].bit_count() - before.bit_count()
    return PartitionSet(masks, count) if masks else NO_PARTITIONS


def _read_numbers(reader: RequestReader) -> Iterator[int]:
    left = reader.array_length()
    while left:
        some = min(left, _NUMBERS_OF_A_STEP)
        yield from reader.fixed(Struct(f">{some}i"))
        left -= some


def _read_tags(reader: RequestReader) -> dict[int, bytes]:
    position, found = reader.position, {}
    for tag in range(3):
        reader.position = position
        content = reader.tagged_field(tag)
        if content is not None:
            found[tag] = bytes(content)
    return found


def _number(tags: dict[int, bytes], tag: int, layout: Struct, default: int) -> int:
    return int(layout.unpack(tags[tag])[0]) if tag in tags else default
