"""Transactional batches and markers for tests, and what a client sees that reads committed records."""

from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.log_transactions import AppendResult
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.storage.records.transactions import UNGUARDED, VerificationGuard
from kafka_bytes.batches import CONTROL, TRANSACTIONAL, ProducerStamp, encode_batch
from kafka_bytes.control import Marker, parse_marker


def transactional(
    values: list[bytes], producer_id: int, epoch: int, sequence: int, at_ms: int = 0, key: bytes = b"k"
) -> bytes:
    """Return a transactional batch of these values."""
    producer = ProducerStamp(producer_id, epoch, sequence)
    return encode_batch([(key, value) for value in values], at_ms, producer, attributes=TRANSACTIONAL)


def write(
    log: Log,
    *values: bytes,
    producer_id: int = 1,
    epoch: int = 0,
    sequence: int = 0,
    guard: VerificationGuard | None = UNGUARDED,
    leader_epoch: int = 0,
    key: bytes = b"k",
) -> int:
    """Append a transactional batch, by default without a verification. Returns its base offset."""
    batch = transactional(list(values), producer_id, epoch, sequence, log.place.clock.wall_ms(), key)
    return log.append(memoryview(batch), leader_epoch=leader_epoch, guard=guard).base_offset


def end(
    log: Log,
    *,
    producer_id: int = 1,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 0,
    leader_epoch: int = 0,
) -> AppendResult:
    """Append a marker."""
    marker = Marker(producer_id, epoch, is_commit, coordinator_epoch, version)
    return log.append_marker(marker, leader_epoch=leader_epoch)


def committed_values(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[bytes | None]:
    """Return the values that a client gets which reads committed records from `offset` on.

    It fetches up to the last stable offset, at most `max_bytes` at a time, and applies Kafka's algorithm for clients to
    each answer: a producer's batches are skipped from the first offset of an aborted transaction up to its marker.
    """
    found: list[bytes | None] = []
    at = log.log_start_offset if offset is None else offset
    while (region := log.read(at, max_bytes, min_one=True, up_to=log.last_stable_offset)) is not None:
        upper = region.next_offset
        waiting = sorted(log.aborted_transactions(at, upper), key=lambda each: each[1])
        aborted: set[int] = set()
        for header, batch in iter_batches(region.read()):
            while waiting and waiting[0][1] <= header.last_offset:
                aborted.add(waiting.pop(0)[0])
            if header.attributes & CONTROL:
                marker = parse_marker(batch, header)
                if marker is not None and not marker.is_commit:
                    aborted.discard(header.producer_id)
            elif not (header.attributes & TRANSACTIONAL and header.producer_id in aborted):
                found += [record.value for record in iter_records(batch) if record.offset >= at]
            at_next = header.last_offset + 1
        at = at_next
    return found
