"""Old segments of a log go, by age, by size and below its start: what `retention` decides is done here."""

import logging
from functools import partial

from broker_runtime.errors import KafkaError
from broker_runtime.storage.log import Log
from broker_runtime.storage.retention import count_expired, is_idle_roll_due

_LOGGER = logging.getLogger(__name__)


def apply_retention(log: Log, now_ms: int) -> None:
    """Take expired segments out of the log; their files go later. Raises OSError, KafkaError."""
    if log.files.swaps.pending is not None:
        return
    if is_idle_roll_due(log.segments[-1], log.config, now_ms):
        log.files.roll()
    count = count_expired(log.segments, log.config, log.log_start_offset, now_ms)
    while count and log.segments[count - 1].next_offset > log.high_watermark:
        count -= 1
    if not count:
        return
    if count == len(log.segments):
        log.files.roll()
    log.files.old.rename_away(count, now_ms, partial(_old_segments_are_gone, log))
    log.begin_at(max(log.log_start_offset, log.segments[0].base_offset))


def _old_segments_are_gone(log: Log) -> None:
    """Only now: before that a power loss brings them back, and the start of the log must be known then."""
    try:
        if log.on_start_moved is not None:
            log.on_start_moved()
        log.files.forget_epochs_before(log.segments[0].base_offset)
    except (OSError, KafkaError) as error:
        _LOGGER.error("the start of %s is noted with the next change: %s", log.place, error)
