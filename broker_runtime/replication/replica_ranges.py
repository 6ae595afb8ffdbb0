"""Batches of this broker's replica that another broker reads to mend its own damaged one (decision 46).

The reader names a leader epoch. A leader answers in its own epoch, and a follower in the epoch in which its log is
known to be a prefix of the leader's: below their ends all such logs have the same batches. Each batch is checked before
it is sent, so a reader never gets other damage. Magic and offset are checked, too: no checksum covers them.
"""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.damage.mending import Supplied
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.leaders_batches import batch_around, leaders_batches

RANGE_BYTES_MAX = 1 << 20
"""Limit of one response in bytes, which a single batch may exceed.

The response is read and checked on the event loop.
"""


def read_range(log: Log, offset: int, next_offset: int, max_bytes: int) -> Supplied:
    """Return the first batches from `offset` up to `next_offset` or, if that is less, to the end of the log.

    Raises KafkaError: OFFSET_OUT_OF_RANGE, and CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR if the batches cannot be read
    here.
    """
    start, end = log.log_start_offset, min(log.log_end_offset, next_offset)
    if not start <= offset < end:
        text = f"offsets {offset} to {next_offset - 1} are not within {start} to {log.log_end_offset - 1}"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    has_gaps = log.files.swaps.may_have_gaps
    region = log.read(offset, min(max(max_bytes, 1), RANGE_BYTES_MAX), min_one=True, up_to=end)
    if region is None:
        return Supplied(b"", end, has_gaps)
    try:
        records = region.read()
    except OSError as error:
        log.suspect(offset)
        raise log.files.health.failure("read", error) from error
    return Supplied(records, _checked_end(log, offset, end, memoryview(records)), has_gaps)


def _checked_end(log: Log, offset: int, end: int, records: memoryview) -> int:
    """End offset of the batches, which lie below `end`.

    Raises KafkaError, and has the segment checked, if one is damaged or not in its place.
    """
    covered_to = offset
    try:
        begin = batch_around(records, offset) if offset == log.log_start_offset else None
        begin = offset if begin is None else begin
        for header in leaders_batches(records, begin, -1):
            is_gap = header.base_offset > max(begin, covered_to)
            if header.last_offset >= end or (is_gap and not log.files.swaps.may_have_gaps):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"its offset is {header.base_offset}")
            covered_to = header.last_offset + 1
    except KafkaError as error:
        log.suspect(covered_to)
        text = f"the batch of offset {covered_to} is damaged: {error.message}"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text) from error
    if covered_to == offset:
        log.suspect(offset)
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch of offset {offset} is damaged")
    return covered_to
