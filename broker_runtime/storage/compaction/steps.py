"""The work of a cleaning for threads: filling the offset map, and writing the remaining records to a new segment.

The iterators yield now and then how many bytes they have read and written; after each yield another thread may run.
They use open files and numbers, nothing that the log changes. They raise OSError, and KafkaError if a log is damaged.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from broker_runtime.config import LONG_MAX
from broker_runtime.storage.compaction.offset_map import OffsetMap
from broker_runtime.storage.compaction.records import StoredRecord, body_of, rewritten, stored_records
from broker_runtime.storage.compaction.transactions import CleanedTransactions
from broker_runtime.storage.disk.disk_slices import Steps
from broker_runtime.storage.disk.filesystem import File
from broker_runtime.storage.records.producers import Producer
from broker_runtime.storage.records.transactions import read_marker
from broker_runtime.storage.segment.batch_writer import BatchWriter
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.stored_batches import batches
from kafka_bytes.batches import CONTROL, DELETE_HORIZON, HEADER_BYTES, Header

_RECORDS_PER_STEP = 256


class CleaningSource(NamedTuple):
    """The part of a sealed segment that a cleaning reads."""

    file: File
    path: Path
    start: int
    size: int
    base_offset: int
    next_offset: int

    def batches(self, read_bytes: int) -> Iterator[tuple[Header, memoryview]]:
        """Return the batches of the source; see `stored_batches.batches`."""
        offsets = self.base_offset, self.next_offset
        return batches(self.file, self.path, self.start, self.size, read_bytes, offsets)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that decide which records stay in a compacted log."""

    offsets: OffsetMap
    last_of_producer: Mapping[int, int]
    """Last offset of each producer's newest batch, by producer id; `_of_marker` if only a marker is known.

    That batch or marker stays, if necessary without records.
    """
    transactions: CleanedTransactions
    now_ms: int
    delete_retention_ms: int


@dataclass(frozen=True, slots=True)
class BufferSizes:
    """Sizes in bytes: of reads and writes, of the largest decompressed batch, and between two index entries."""

    io_bytes: int
    unpacked_bytes_max: int
    index_interval_bytes: int


@dataclass(slots=True)
class Counts:
    """Counts of one cleaning of a compacted log: bytes, records and changed batches."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    batches_changed: int = 0


def fill_map(
    offsets: OffsetMap,
    sources: Sequence[CleaningSource],
    from_offset: int,
    transactions: CleanedTransactions,
    buffers: BufferSizes,
    counts: Counts,
) -> Steps:
    """Put the keys from `from_offset` on into the map, until all sources are read or the map is full.

    Records of aborted transactions do not count.
    """
    for source in sources:
        for header, batch in source.batches(buffers.io_bytes):
            if header.last_offset < from_offset:
                continue
            if header.attributes & CONTROL:
                transactions.ends(header, read_marker(batch, header))
            elif not transactions.is_aborted(header) and not (
                yield from _note_keys(offsets, body_of(header, batch, buffers.unpacked_bytes_max), header, from_offset)
            ):
                return
            offsets.latest = header.last_offset
            counts.bytes_read += header.size
            yield header.size
        offsets.latest = source.next_offset - 1


def note_newest(producers: Iterable[tuple[int, Producer]], newest: dict[int, int]) -> Steps:
    """Put the last offset of each producer's newest batch into `newest`, by the producer's id."""
    for number, (producer_id, state) in enumerate(producers, 1):
        newest[producer_id] = state.last_offset if state.batches else _of_marker(state.epoch)
        if not number % _RECORDS_PER_STEP:
            yield 0


def _of_marker(epoch: int) -> int:
    """Return the value that stands for the markers of a producer's epoch. No offset is negative."""
    return -1 - epoch


def _is_newest(header: Header, rules: Rules) -> bool:
    """Whether the batch is the newest one of its producer: it has the producer's sequence number or epoch."""
    known = rules.last_of_producer.get(header.producer_id)
    if known is None:
        return False
    if known >= 0:
        return known == header.last_offset
    return header.attributes & CONTROL != 0 and known == _of_marker(header.producer_epoch)


def _note_keys(offsets: OffsetMap, body: bytes, header: Header, from_offset: int) -> Generator[int, None, bool]:
    """Whether there was room for all keys; if not, `offsets.latest` is before the first key that is missing."""
    put, base = offsets.put, header.base_offset
    for number, (_, _, _, delta, key, _) in enumerate(stored_records(body, header.record_count), 1):
        offset = base + delta
        if key is not None and offset >= from_offset and not put(key, offset):
            offsets.latest = max(offsets.latest, offset - 1)
            return False
        if not number % _RECORDS_PER_STEP:
            yield 0
    return True


def write_kept(
    new: Segment, sources: Sequence[CleaningSource], rules: Rules, buffers: BufferSizes, counts: Counts
) -> Steps:
    """Write the records that stay to the segment `new`.

    The last batch stays, if necessary without records: segments follow each other without a gap, so that a start
    notices a lost one.
    """
    out = BatchWriter(new, buffers.io_bytes, buffers.index_interval_bytes)
    last_offset = sources[-1].next_offset - 1
    for source in sources:
        for header, batch in source.batches(buffers.io_bytes):
            counts.bytes_read += header.size
            body, kept, needs_horizon = b"", None, False
            if header.attributes & CONTROL:
                body = bytes(batch[HEADER_BYTES:])
                kept, needs_horizon = _kept_marker(body, header, batch, rules, new)
            elif rules.transactions.is_aborted(header):
                kept = []
                counts.records_read += header.record_count
            elif header.base_offset <= rules.offsets.latest:
                body = body_of(header, batch, buffers.unpacked_bytes_max)
                kept = yield from _kept_records(body, header, rules, counts)
                needs_horizon = not all(record.has_value for record in kept)
            horizon_ms = None
            if kept and needs_horizon and not header.attributes & DELETE_HORIZON:
                horizon_ms = min(rules.now_ms + rules.delete_retention_ms, LONG_MAX)
            written = 0
            stays = kept or header.last_offset == last_offset or _is_newest(header, rules)
            if kept is None or (stays and len(kept) == header.record_count and horizon_ms is None):
                written = out.put(header, batch)
            else:
                counts.batches_changed += 1
                if stays:
                    written = out.put(header, rewritten(header, batch, body, kept, horizon_ms))
            counts.bytes_written += written
            yield header.size + written
    written = out.flush()
    counts.bytes_written += written
    yield written
    new.index_time()


def _kept_marker(
    body: bytes, header: Header, batch: memoryview, rules: Rules, new: Segment
) -> tuple[list[StoredRecord], bool]:
    """Return the record of a marker if it stays, and whether the marker needs a delete horizon to be removed later.

    The new segment's index gets an aborted transaction of which this pass has met records: readers may still have them.
    """
    is_superfluous, ended = rules.transactions.ends(header, read_marker(batch, header))
    if ended is not None and new.indexes.aborted is not None:
        new.indexes.aborted.append(ended)
    horizon_is_over = header.attributes & DELETE_HORIZON and rules.now_ms >= header.base_timestamp
    if is_superfluous and horizon_is_over:
        return [], False
    return list(stored_records(body, header.record_count)), is_superfluous


def _kept_records(
    body: bytes, header: Header, rules: Rules, counts: Counts
) -> Generator[int, None, list[StoredRecord]]:
    """Yield the sizes of steps, and return the records that stay, as in Kafka.

    The last record of each key stays, and tombstones stay until their batch's delete horizon.
    """
    base, get, latest = header.base_offset, rules.offsets.get, rules.offsets.latest
    horizon_is_over = header.attributes & DELETE_HORIZON and rules.now_ms >= header.base_timestamp
    kept: list[StoredRecord] = []
    for number, record in enumerate(stored_records(body, header.record_count), 1):
        offset, key = base + record.offset_delta, record.key
        if offset > latest:
            kept.append(record)
        elif key is None:
            counts.records_without_key += 1
        elif offset >= get(key) and (record.has_value or not horizon_is_over):
            kept.append(record)
        if not number % _RECORDS_PER_STEP:
            yield 0
    counts.records_read += header.record_count
    counts.records_kept += len(kept)
    return kept
