"""The reading side of one log: batches from an offset on, ends of leader epochs, and offsets that cannot be read."""

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.log.log_files import LogFiles
from broker_runtime.storage.log.log_offsets import LogOffsets
from broker_runtime.storage.log.truncation import end_before
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_reader import NOT_CHECKED
from broker_runtime.wire.reply import FileRegion

_BASE_OFFSET = attrgetter("base_offset")


class LogReads(LogOffsets):
    """The reads of a log. Readers get whole batches as stored in the file, without a check of their checksums."""

    __slots__ = ("_health", "on_unreadable", "segments")

    def __init__(self, files: LogFiles, config: TopicConfig, log_start_offset: int) -> None:
        super().__init__(files, config, log_start_offset)
        self.segments = files.segments
        self._health = files.health
        self.on_unreadable: Callable[[Segment], None] | None = None
        """Called with a segment after a failed read: its file may be damaged."""

    @property
    def damage(self) -> list[DamagedRange]:
        """Return the ranges of offsets that the log covers and that cannot be read here, in order."""
        return self.files.damage.ranges_from(self.log_start_offset)

    @property
    def is_damaged(self) -> bool:
        """Return whether the log has a damaged range. This takes no longer if it has thousands."""
        return self.files.damage.first_from(self.log_start_offset) is not None

    @property
    def may_have_gaps(self) -> bool:
        """Return whether offsets may be missing between those of records: the log was cleaned, or parts are damaged."""
        return self.files.swaps.may_have_gaps or self.is_damaged

    def read(self, offset: int, max_bytes: int, *, min_one: bool, up_to: int) -> FileRegion | None:
        """Return the whole batches from the one with `offset` on, below `up_to`.

        A first batch larger than `max_bytes` is returned only with `min_one`. Raises KafkaError: OFFSET_OUT_OF_RANGE,
        CORRUPT_MESSAGE in a damaged range, and KAFKA_STORAGE_ERROR when a file cannot be read for another reason.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}",
            )
        if offset >= up_to:
            return None
        segments = self.segments
        number = len(segments) - 1
        if offset < segments[number].base_offset:
            number = max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)
        try:
            while number < len(segments):
                start = segments[number].position_of(offset)
                if start is not None:
                    return segments[number].region(start, max_bytes, min_one=min_one, up_to=up_to)
                number += 1
        except OSError as error:
            self._note_unreadable(segments[number])
            raise self._health.failure("read", error) from error
        except KafkaError:
            # Report known damage, too: it may have been repaired.
            self._note_unreadable(segments[number])
            raise
        return None

    def suspect(self, offset: int) -> None:
        """Request a check of the segment with `offset`, after a read of a damaged batch at that offset."""
        number = max(bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1, 0)
        self._note_unreadable(self.segments[number])

    def recheck(self, segment: Segment) -> None:
        """Request a check of the segment after a read of unknown damage, however recent the segment's last check is."""
        segment.checked_s = NOT_CHECKED
        self._note_unreadable(segment)

    def _note_unreadable(self, segment: Segment) -> None:
        if self.on_unreadable is not None:
            self.on_unreadable(segment)

    def end_offset_for_epoch(self, epoch: int, *, for_replica: bool = False) -> tuple[int, int]:
        """Return the greatest known epoch up to `epoch`, and the offset where that epoch ends in this log.

        The result is (-1, -1) if no such epoch is known. Raises KafkaError when a file cannot be read.

        An epoch ends where the next one begins. A replica that was built from a cleaned log knows only the first
        remaining batch of the next epoch, so this end may be too high: records of another replica below it may never
        have been in this log. With `for_replica` the end is that of the last remaining batch of this epoch or an older
        one.
        """
        known, end = self.files.epochs.end_offset_for(epoch, self.log_end_offset)
        is_whole = end == self.log_end_offset or end <= self.segments[0].base_offset
        if not for_replica or is_whole or not self.files.swaps.may_have_gaps:
            return known, end
        try:
            return known, end_before(self.segments, end)
        except OSError as error:
            raise self._health.failure("read", error) from error
