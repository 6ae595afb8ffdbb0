"""The reading side of one log: batches from an offset on, ends of leader epochs, and offsets that cannot be read."""

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.damaged_ranges import DamagedRange
from broker_runtime.storage.log_files import LogFiles
from broker_runtime.storage.log_offsets import LogOffsets
from broker_runtime.storage.segment import Segment
from broker_runtime.storage.segment_reader import NOT_CHECKED
from broker_runtime.storage.truncation import end_before
from broker_runtime.wire.reply import FileRegion

_BASE_OFFSET = attrgetter("base_offset")


class LogReads(LogOffsets):
    """Readers get whole batches as they are in the file, without a check of their checksums."""

    __slots__ = ("_health", "on_unreadable", "segments")

    def __init__(self, files: LogFiles, config: TopicConfig, log_start_offset: int) -> None:
        super().__init__(files, config, log_start_offset)
        self.segments = files.segments
        self._health = files.health
        self.on_unreadable: Callable[[Segment], None] | None = None
        """Called with a segment after a failed read: its file may be damaged."""

    @property
    def damage(self) -> list[DamagedRange]:
        """The offsets that the log has and that cannot be read here, in order."""
        return self.files.damage.ranges_from(self.log_start_offset)

    @property
    def is_damaged(self) -> bool:
        """Whether `damage` has any range; takes no longer where it has thousands."""
        return self.files.damage.first_from(self.log_start_offset) is not None

    def read(self, offset: int, max_bytes: int, *, min_one: bool, up_to: int) -> FileRegion | None:
        """Whole batches from the one that holds `offset`, below `up_to`; one that is too large only with `min_one`.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE in a damaged range, and KAFKA_STORAGE_ERROR when a file
        cannot be read otherwise.
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
            # Also where it is known that it is damaged: that may be over.
            self._note_unreadable(segments[number])
            raise
        return None

    def suspect(self, offset: int) -> None:
        """A batch that was read at `offset` is damaged: have its segment checked."""
        number = max(bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1, 0)
        self._note_unreadable(self.segments[number])

    def recheck(self, segment: Segment) -> None:
        """A damage of the segment was met that is not known: have it checked, however lately that was done."""
        segment.checked_s = NOT_CHECKED
        self._note_unreadable(segment)

    def _note_unreadable(self, segment: Segment) -> None:
        if self.on_unreadable is not None:
            self.on_unreadable(segment)

    def end_offset_for_epoch(self, epoch: int, *, for_replica: bool = False) -> tuple[int, int]:
        """(greatest known epoch up to this one, where it ends here); (-1, -1) when none is known.

        `for_replica`: behind the last batch that is left of it or of older ones. A cleaning leaves offsets out, so a
        replica that was made from a cleaned log does not know where the next epoch began, only where the first batch
        lies that was left of it. What another replica has between the two may never have been this log's.

        Raises KafkaError when a file cannot be read.
        """
        known, end = self.files.epochs.end_offset_for(epoch, self.log_end_offset)
        is_whole = end == self.log_end_offset or end <= self.segments[0].base_offset
        if not for_replica or is_whole or not self.files.swaps.may_have_gaps:
            return known, end
        try:
            return known, end_before(self.segments, end)
        except OSError as error:
            raise self._health.failure("read", error) from error
