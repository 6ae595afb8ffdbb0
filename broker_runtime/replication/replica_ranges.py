"""What another broker reads of a replica of this one, to mend its own damaged one (decision 46).

The reader names a leader epoch. A leader answers in its own epoch, and a follower in the epoch in which its log is
known to be a beginning of the leader's: below their ends all such logs hold the same batches. The checksum of each
batch is checked before it is sent, so a reader never gets another damage.
"""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import checksum, iter_batches
from broker_runtime.storage.log import Log
from broker_runtime.storage.mending import Supplied

RANGE_BYTES_MAX = 1 << 20
"""Limit of one answer, which may be exceeded by a single batch: it is read and checked on the event loop."""


def read_range(log: Log, offset: int, next_offset: int, max_bytes: int) -> Supplied:
    """A beginning of the batches from `offset` up to `next_offset`.

    Raises KafkaError: OFFSET_OUT_OF_RANGE, and CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR where they cannot be read here.
    """
    start, end = log.log_start_offset, log.log_end_offset
    if not start <= offset < next_offset <= end:
        text = f"offsets {offset} to {next_offset - 1} are not within {start} to {end - 1}"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    has_gaps = log.files.swaps.may_have_gaps
    region = log.read(offset, min(max(max_bytes, 1), RANGE_BYTES_MAX), min_one=True, up_to=next_offset)
    if region is None:
        return Supplied(b"", next_offset, has_gaps)
    try:
        records = region.read()
    except OSError as error:
        log.suspect(offset)
        raise log.files.health.failure("read", error) from error
    covered_to = offset
    for header, batch in iter_batches(records):
        if checksum(batch) != header.crc:
            log.suspect(header.base_offset)
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch of offset {header.base_offset} is damaged")
        covered_to = header.last_offset + 1
    if covered_to == offset:
        log.suspect(offset)
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch of offset {offset} is damaged")
    return Supplied(records, covered_to, has_gaps)
