"""One partition's log: the produce and fetch paths.

The produce path unpacks the batch header from the request's bytes once and computes one checksum over them. One pwritev
stores the patched header fields and the unchanged rest in the page cache. Records are neither copied nor decompressed.
`LogFiles` owns the files and their durability. The module knows nothing of topics' leaders, requests or sockets.
"""

from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.filesystem import Buffer
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log_files import LoadedLog, LogFiles
from broker_runtime.storage.log.log_reads import LogReads
from broker_runtime.storage.records.producers import StoredBatch
from broker_runtime.storage.records.retention import is_roll_due
from broker_runtime.storage.records.validation import check_batch, stamped_header
from kafka_bytes.batches import HEADER_BYTES, advance_sequence

_PREFIX = Struct(">qii")
_PREFIX_BYTES = _PREFIX.size
_BASE_OFFSET = attrgetter("base_offset")
NO_TIMESTAMP = -1


class AppendResult(NamedTuple):
    """The fields of a produce response for one batch; the append time is -1 if producers set the timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Log(LogReads):
    """The log as a leader writes it and as every reader sees it.

    `FollowerLog` appends what a leader sends, `expiry` deletes old segments and `compaction` cleans the log.

    Methods raise KafkaError with KAFKA_STORAGE_ERROR when the disk fails. An appended batch survives the end of the
    process; `files.syncs` knows what survives a power loss.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "partition",
        "place",
        "producers",
        "topic",
        "topic_id",
    )

    def __init__(self, place: LogPlace, config: TopicConfig, loaded: LoadedLog) -> None:
        super().__init__(LogFiles(place, loaded), config, loaded.log_start_offset)
        self.place = place
        self.topic = place.topic
        self.partition = place.partition
        self.topic_id = place.topic_id
        self.producers = self.files.producers
        self._clock = place.clock

    @property
    def size(self) -> int:
        """Size of all batches, in bytes."""
        return self.files.size

    @property
    def recovery_point(self) -> int:
        """Offset below which a power loss takes nothing."""
        return self._syncs.recovery_point

    @property
    def failure(self) -> str | None:
        """Why the log is offline: it accepts no records and confirms no further ones. None while it is online."""
        return self._health.offline

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the newest batch; -1 if no batch was written under an epoch."""
        return self.files.epochs.latest

    def append(self, records: memoryview, *, leader_epoch: int = 0) -> AppendResult:
        """Store one batch as a client sent it. Raises KafkaError, and leaves the log unchanged then."""
        config = self.config
        files = self.files
        now_ms = self._clock.wall_ms()
        raw = check_batch(records, config, now_ms)
        _, length, _, _, _, _, last_delta, _, max_timestamp, producer_id, producer_epoch, sequence, _ = raw
        if not self._health.usable:
            files.make_usable()
        if producer_id >= 0:
            last_sequence = advance_sequence(sequence, last_delta)
            stored = self.producers.duplicate_or_check(producer_id, producer_epoch, sequence, last_sequence)
            if stored is not None:
                return self._repeated(stored)
        base = self.log_end_offset
        last = base + last_delta
        size = len(records)
        appended_ms = NO_TIMESTAMP
        buffers: list[Buffer]
        if config.message_timestamp_type == "CreateTime":
            buffers = [_PREFIX.pack(base, length, leader_epoch), records[_PREFIX_BYTES:]]
        else:
            appended_ms = max_timestamp = now_ms
            buffers = [stamped_header(raw, records, base, leader_epoch, now_ms), records[HEADER_BYTES:]]
        segment = self.segments[-1]
        if segment.size and is_roll_due(segment, config, size, last, max_timestamp, now_ms):
            segment = files.roll()
        if leader_epoch > files.epochs.latest:
            files.begin_epoch(leader_epoch, base)
        files.write(segment, buffers)
        if segment.commit(size, last, max_timestamp, config.index_interval_bytes) and segment.indexes.write_due:
            files.write_indexes_soon(segment)
        if producer_id >= 0:
            stored = StoredBatch(sequence, last_sequence, base, last, max_timestamp)
            self.producers.record(producer_id, producer_epoch, stored, now_ms)
        self.extend_to(last + 1)
        # The named tuple's constructor takes twice as long.
        return tuple.__new__(AppendResult, (base, last, appended_ms, self.log_start_offset))

    def _repeated(self, stored: StoredBatch) -> AppendResult:
        """Return the response to a batch that a producer sends again."""
        appended_ms = NO_TIMESTAMP if self.config.message_timestamp_type == "CreateTime" else stored.timestamp
        return AppendResult(stored.first_offset, stored.last_offset, appended_ms, self.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Move the log start and return the new one. The next tick removes the segments that lie wholly below it.

        Raises KafkaError: OFFSET_OUT_OF_RANGE.
        """
        if before_offset > self.high_watermark or before_offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {before_offset} is outside 0..{self.high_watermark}"
            )
        self.move_start(before_offset)
        return self.log_start_offset

    def update_config(self, config: TopicConfig) -> None:
        self.config = config
        self._recount()

    def flush(self) -> None:
        """Sync everything appended so far, so that it survives a power loss. Raises KafkaError."""
        self._syncs.flush()

    def close(self) -> None:
        """Complete the files and sync them. Raises KafkaError."""
        self.files.close()
        self.end()

    def end(self) -> None:
        """Take the log offline because it is closed or deleted, and wake every waiter."""
        self._health.take_offline(f"{self.place} is closed on this broker")
        self.files.epochs_file.close()
        # Break the reference cycle, so that the log is freed with its last reference, without the garbage collector.
        self._syncs.on_ended = lambda: None
        self.wake_waiting()
