"""Writes of a follower to its log: appends its leader's batches, and cuts what the leader does not have."""

from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.log_files import LogFiles
from broker_runtime.storage.log.truncation import end_before
from broker_runtime.storage.records.leaders_batches import Run, batch_around, leaders_batches, without_overlap
from broker_runtime.storage.records.retention import is_roll_due
from broker_runtime.storage.records.transactions import replayed_marker
from kafka_bytes.batches import CONTROL

_OPENED_BY_A_CUT = 4
"""Limit of the files that a cut has open at the same time."""


class FollowerLog:
    """The log of a replica whose leader is another broker.

    Methods raise KafkaError with KAFKA_STORAGE_ERROR when the disk fails. A cut is synced when its method returns.
    """

    __slots__ = ("log",)

    def __init__(self, log: Log) -> None:
        self.log = log

    def append(self, records: memoryview) -> int:
        """Append whole batches as the leader sent them; returns the new end of the log.

        Raises KafkaError at the first bad batch, CORRUPT_MESSAGE or OFFSET_OUT_OF_RANGE; the batches before it are
        stored.
        """
        log = self.log
        if not log.files.health.usable:
            log.files.make_usable()
        start = log.log_start_offset
        if start == log.log_end_offset:
            self._begin_with_batch_around(start, records)
        records = without_overlap(records, log.log_end_offset, log.latest_epoch)
        now_ms = log.place.clock.wall_ms()
        run = Run(records)
        try:
            end = log.log_end_offset
            for header in leaders_batches(records, end, log.latest_epoch):
                if header.base_offset != end:
                    log.files.swaps.allow_gaps(self._why_gaps(end, header.base_offset))
                end = header.last_offset + 1
                if run.headers and header.leader_epoch != run.headers[-1].leader_epoch:
                    self._append_run(run, now_ms)
                size = run.size + header.size
                last, timestamp = header.last_offset, header.newest_ms
                active = log.segments[-1]
                if (active.size or run.size) and is_roll_due(active, log.config, size, last, timestamp, now_ms):
                    self._append_run(run, now_ms)
                    log.files.roll()
                run.add(header)
        finally:
            self._append_run(run, now_ms)
        if log.log_start_offset < start:
            self.move_start(start)
        return log.log_end_offset

    def _why_gaps(self, end: int, base: int) -> str:
        """Return the log message about a gap in the leader's offsets.

        The leader's log defines the partition: refusing the gap would keep this replica behind forever. But only a
        topic that is or was compacted has a reason for gaps.
        """
        config = self.log.config
        return f"the leader has no records from {end} to {base - 1}" + (
            "" if config.compacted else ", but the topic is not compacted: if it never was, these records are lost"
        )

    def _begin_with_batch_around(self, offset: int, records: memoryview) -> None:
        """Restart an empty log where the leader's first batch begins, if the leader's log starts inside that batch."""
        base = batch_around(records, offset)
        if base is not None:
            self.restart_at(base)

    def _append_run(self, run: Run, now_ms: int) -> None:
        """Append adjacent batches of one epoch and one segment with one write."""
        headers, data = run.take()
        if not headers:
            return
        log, files = self.log, self.log.files
        segment = log.segments[-1]
        last = headers[-1].last_offset
        if headers[0].leader_epoch > files.epochs.latest:
            files.begin_epoch(headers[0].leader_epoch, headers[0].base_offset)
        files.write(segment, [data])
        at = 0
        for header in headers:
            segment.commit(header.size, header.last_offset, header.newest_ms, log.config.index_interval_bytes)
            if header.attributes & CONTROL:
                marker = replayed_marker(data[at : at + header.size], header)
                if marker is not None:
                    log.note_end(segment, marker, header.base_offset, header.max_timestamp, now_ms)
            else:
                log.producers.replay(header, now_ms)
            at += header.size
        if segment.indexes.write_due:
            files.write_indexes_soon(segment)
        log.extend_to(last + 1)

    def truncate_to(self, offset: int) -> None:
        """Drop, durably, every batch that has `offset` or a later one. Raises KafkaError."""
        log = self.log
        if offset >= log.log_end_offset:
            return
        if offset <= log.segments[0].base_offset:
            self.restart_at(max(offset, 0))
            return
        check_files_open(log.files)
        end = end_before(log.segments, offset)
        log.begin_cut(end)
        log.files.cut_back(end, log.config.index_interval_bytes, log.high_watermark)
        log.end_cut(log.segments[-1].next_offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything and continue at `offset`, because the leader has no older records any more.

        Raises KafkaError.
        """
        log = self.log
        check_files_open(log.files)
        log.begin_cut(min(offset, log.segments[0].base_offset))
        log.files.begin_anew(offset)
        log.high_watermark = log.log_start_offset = offset
        log.end_cut(log.segments[-1].next_offset)

    def move_start(self, offset: int) -> None:
        """Move the start of this log to the start of the leader's log."""
        self.log.move_start(min(offset, self.log.log_end_offset))


def check_files_open(files: LogFiles) -> None:
    """Raise KafkaError if files cannot be opened, because a cut that fails midway takes the log offline."""
    try:
        opened = [files.place.fs.open(files.segments[-1].path) for _ in range(_OPENED_BY_A_CUT)]
    except OSError as error:
        raise files.health.write_failure("opening files for a truncation", error) from error
    del opened
