"""Frames of a transactional producer, encoded and decoded by hand, because the client shares the brokers' cores.

A producer of transaction version 1 adds partitions by AddPartitionsToTxn, as librdkafka does. One of version 2 lets
Produce add them, as Apache Kafka's own client does, and gets another epoch with each EndTxn (KIP-890).
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from kafka_bytes.varints import write_uvarint

_CLIENT = b"transact"
_HEAD = Struct(">hhih")
_INT16, _INT32 = Struct(">h"), Struct(">i")
_PRODUCER = Struct(">qh")
_ACKS_ALL, _TIMEOUT_MS = -1, 30_000
_PRODUCE, _FIND_COORDINATOR, _INIT_PRODUCER_ID, _ADD_PARTITIONS, _END_TXN = 0, 10, 22, 24, 26
_TRANSACTIONS = b"\x01"
_RESULT_BYTES = 4 + 2 + 3 * 8
"""Size of a partition's index, error, base offset, append time and log start."""
_FIRST_VERSION_TAIL, _SECOND_VERSION_TAIL = 6, 3
"""Size of the rest of a partition without an error, in Produce 8 and 12."""

Batches = Mapping[int, bytes]
"""The record batch of each partition."""


class Place(NamedTuple):
    """An answer to FindCoordinator."""

    error: int
    host: str
    port: int


class Stamp(NamedTuple):
    """An answer that has a producer id and an epoch."""

    error: int
    producer_id: int
    epoch: int


def _frame(key: int, version: int, *body: bytes, flexible: bool = False) -> bytes:
    head = _HEAD.pack(key, version, 0, len(_CLIENT)) + _CLIENT + (b"\0" if flexible else b"")
    content = b"".join((head, *body))
    return _INT32.pack(len(content)) + content


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _compact(text: str) -> bytes:
    data = text.encode()
    return write_uvarint(len(data) + 1) + data


def find_coordinator(transactional_id: str) -> bytes:
    return _frame(_FIND_COORDINATOR, 2, _string(transactional_id), _TRANSACTIONS)


def read_coordinator(answer: bytes) -> Place:
    (error,) = _INT16.unpack_from(answer, 8)
    at = 12 + max(_INT16.unpack_from(answer, 10)[0], 0) + 4
    (length,) = _INT16.unpack_from(answer, at)
    host = answer[at + 2 : at + 2 + length].decode()
    return Place(error, host, _INT32.unpack_from(answer, at + 2 + length)[0])


def init_producer_id(transactional_id: str, timeout_ms: int) -> bytes:
    return _frame(_INIT_PRODUCER_ID, 1, _string(transactional_id), _INT32.pack(timeout_ms))


def read_init_producer_id(answer: bytes) -> Stamp:
    return Stamp(_INT16.unpack_from(answer, 8)[0], *_PRODUCER.unpack_from(answer, 10))


def add_partitions(transactional_id: str, producer_id: int, epoch: int, topic: str, indexes: Sequence[int]) -> bytes:
    numbers = Struct(f">i{len(indexes)}i").pack(len(indexes), *indexes)
    producer = _string(transactional_id) + _PRODUCER.pack(producer_id, epoch)
    return _frame(_ADD_PARTITIONS, 2, producer, _INT32.pack(1), _string(topic), numbers)


def read_add_partitions(answer: bytes) -> int:
    """Return the error of the first partition: an error of the transaction is the same for all of them."""
    at = 4 + 4 + 4
    at += 2 + _INT16.unpack_from(answer, at)[0] + 4 + 4
    return int(_INT16.unpack_from(answer, at)[0])


def produce(version: int, transactional_id: str, topic: str, batches: Batches) -> bytes:
    """Return a request with one batch for each partition, of a producer of this transaction version."""
    fixed = Struct(">hi").pack(_ACKS_ALL, _TIMEOUT_MS)
    parts: list[bytes] = []
    if version == 1:
        for index, batch in batches.items():
            parts += (_INT32.pack(index), _INT32.pack(len(batch)), batch)
        head = (_string(transactional_id), fixed, _INT32.pack(1), _string(topic), _INT32.pack(len(batches)))
        return _frame(_PRODUCE, 8, *head, *parts)
    for index, batch in batches.items():
        parts += (_INT32.pack(index), write_uvarint(len(batch) + 1), batch, b"\0")
    head = (_compact(transactional_id), fixed, b"\x02", _compact(topic), write_uvarint(len(batches) + 1))
    return _frame(_PRODUCE, 12, *head, *parts, b"\0\0", flexible=True)


def read_produce(version: int, topic: str, answer: bytes) -> int:
    """Return the first error of a partition, or 0. Partitions after an error are not read."""
    name = len(topic.encode())
    if version == 1:
        at, size = 4 + 4 + 2 + name, _RESULT_BYTES + _FIRST_VERSION_TAIL
        (count,) = _INT32.unpack_from(answer, at)
        at += 4
    else:
        # The answer has fewer than 127 partitions, so that each length is one byte.
        at, size = 4 + 1 + 1 + 1 + name, _RESULT_BYTES + _SECOND_VERSION_TAIL
        count = answer[at] - 1
        at += 1
    for number in range(count):
        (error,) = _INT16.unpack_from(answer, at + number * size + 4)
        if error:
            return int(error)
    return 0


def end_txn(version: int, transactional_id: str, producer_id: int, epoch: int, *, is_commit: bool = True) -> bytes:
    producer = _PRODUCER.pack(producer_id, epoch) + (b"\x01" if is_commit else b"\0")
    if version == 1:
        return _frame(_END_TXN, 2, _string(transactional_id), producer)
    return _frame(_END_TXN, 5, _compact(transactional_id), producer, b"\0", flexible=True)


def read_end_txn(version: int, answer: bytes) -> Stamp:
    """Return the error, and the producer's next id and epoch, which are -1 in version 1."""
    if version == 1:
        return Stamp(_INT16.unpack_from(answer, 8)[0], -1, -1)
    return Stamp(_INT16.unpack_from(answer, 9)[0], *_PRODUCER.unpack_from(answer, 11))
