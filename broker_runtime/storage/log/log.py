"""One partition's log: the produce and fetch paths.

The produce path unpacks the batch header from the request's bytes once and computes one checksum over them. One pwritev
stores the patched header fields and the unchanged rest in the page cache. Records are neither copied nor decompressed.
`LogFiles` owns the files and their durability. The module knows nothing of topics' leaders, requests or sockets.
"""

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.filesystem import Buffer
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log_files import LoadedLog, LogFiles
from broker_runtime.storage.log.log_transactions import PREFIX, PREFIX_BYTES, AppendResult, LogTransactions
from broker_runtime.storage.records.producers import StoredBatch
from broker_runtime.storage.records.retention import is_roll_due
from broker_runtime.storage.records.transactions import VerificationGuard
from broker_runtime.storage.records.validation import CLIENTS_SEQUENCE_MIN, check_batch, stamped_header
from kafka_bytes.batches import HEADER_BYTES, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL, advance_sequence


class Log(LogTransactions):
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
        """Return the size of all batches, in bytes."""
        return self.files.size

    @property
    def recovery_point(self) -> int:
        """Return the offset below which a power loss loses no record."""
        return self._syncs.recovery_point

    @property
    def failure(self) -> str | None:
        """Return why the log is offline and accepts and confirms no records; None for a log that is online."""
        return self._health.offline

    @property
    def latest_epoch(self) -> int:
        """Return the leader epoch of the newest batch; -1 if no batch was written under an epoch."""
        return self.files.epochs.latest

    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: int = 0,
        guard: VerificationGuard | None = None,
        sequence_min: int = CLIENTS_SEQUENCE_MIN,
    ) -> AppendResult:
        """Append one batch as the client sent it. Raises KafkaError; then the log stays unchanged.

        A transactional batch that opens a transaction needs the `guard` of its verification. A coordinator that writes
        for a producer has no sequence numbers, and lowers `sequence_min`.
        """
        config = self.config
        files = self.files
        now_ms = self._clock.wall_ms()
        raw = check_batch(records, config, now_ms, sequence_min)
        _, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, producer_epoch, sequence, _ = raw
        if not self._health.usable:
            files.make_usable()
        if producer_id >= 0:
            last_sequence = advance_sequence(sequence, last_delta)
            if attributes & TRANSACTIONAL:
                if sequence < 0:
                    last_sequence = NO_SEQUENCE
                stored = self.producers.duplicate_or_check_transactional(
                    producer_id, producer_epoch, sequence, last_sequence, guard
                )
            else:
                stored = self.producers.duplicate_or_check(producer_id, producer_epoch, sequence, last_sequence)
            if stored is not None:
                return self._repeated(stored)
        base = self.log_end_offset
        last = base + last_delta
        size = len(records)
        appended_ms = NO_TIMESTAMP
        buffers: list[Buffer]
        if config.message_timestamp_type == "CreateTime":
            buffers = [PREFIX.pack(base, length, leader_epoch), records[PREFIX_BYTES:]]
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
            if attributes & TRANSACTIONAL:
                self.producers.record(producer_id, producer_epoch, stored, now_ms, is_transactional=True)
            else:
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
        """Sync all appended records, so that they survive a power loss. Raises KafkaError."""
        self._syncs.flush()

    def close(self) -> None:
        """Complete the log's files and sync them. Raises KafkaError."""
        self.files.close()
        self.end()

    def end(self) -> None:
        """Take the closed or deleted log offline, and wake all waiters."""
        self._health.take_offline(f"{self.place} is closed on this broker")
        self.files.epochs_file.close()
        # Break the reference cycle, so that the log is freed with its last reference, without the garbage collector.
        self._syncs.on_ended = lambda: None
        self.wake_waiting()
