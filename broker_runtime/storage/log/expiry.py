"""Removes old segments of a log by age, by size and below its start, as `retention` decides."""

import logging
from functools import partial

from broker_runtime.errors import KafkaError
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.retention import count_below_start, count_expired, is_idle_roll_due

_LOGGER = logging.getLogger(__name__)


def roll_idle(log: Log, now_ms: int) -> None:
    """Begin a new segment if the active one is too old and nothing is appended to it. Raises KafkaError."""
    if log.files.swaps.pending is None and is_idle_roll_due(log.segments[-1], log.config, now_ms):
        log.files.roll()


def apply_retention(log: Log, now_ms: int) -> None:
    """Remove segments beyond `retention.ms` or `retention.bytes` from the log, and those below its start.

    Their files are deleted later. Raises OSError, KafkaError.
    """
    _take_out(log, count_expired(log.segments, log.config, log.log_start_offset, now_ms), now_ms)


def remove_below_start(log: Log, now_ms: int) -> None:
    """Remove the segments whose records DeleteRecords has deleted from the log. Raises OSError, KafkaError."""
    _take_out(log, count_below_start(log.segments, log.log_start_offset), now_ms)


def _take_out(log: Log, count: int, now_ms: int) -> None:
    if log.files.swaps.pending is not None:
        return
    while count and log.segments[count - 1].next_offset > log.high_watermark:
        count -= 1
    if not count:
        return
    if count == len(log.segments):
        log.files.roll()
    log.files.old.rename_away(count, now_ms, partial(_old_segments_are_gone, log))
    log.begin_at(max(log.log_start_offset, log.segments[0].base_offset))


def _old_segments_are_gone(log: Log) -> None:
    """Persist the new start, now that the segments are durably gone.

    Before that, a power loss could bring them back, and the old start would have to be known.
    """
    try:
        if log.on_start_moved is not None:
            log.on_start_moved()
        log.files.forget_epochs_before(log.segments[0].base_offset)
    except (OSError, KafkaError) as error:
        _LOGGER.error("the start offset of %s could not be stored; the next change stores it: %s", log.place, error)
