"""Cleaning of a log of a `LogHouse`, completely or up to a chosen moment."""

from collections.abc import Callable

from broker_runtime.errors import KafkaError
from broker_runtime.storage.compaction.cleaning import CleanerSettings, Cleaning, CleaningStoppedError
from broker_runtime.storage.compaction.dirt import Dirt
from broker_runtime.storage.compaction.records import body_of
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import Record, iter_batches, iter_records
from kafka_bytes.batches import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    NO_PRODUCER,
    OVERHEAD_BYTES,
    ProducerStamp,
    checksum,
    encode_batch,
)
from tests.support.logs.logs import LogHouse
from tests.support.logs.packed_batches import packed

SETTINGS = CleanerSettings(1 << 20, 0.9, 4096, 1 << 20)
KeyValue = tuple[bytes | None, bytes | None]


def dirt_of(house: LogHouse) -> Dirt:
    log = house.log
    first_dirty = max(log.first_dirty_offset, log.log_start_offset)
    settled_end = min(log.last_stable_offset, log.recovery_point)
    return Dirt(log.segments, log.config, first_dirty, settled_end, house.clock.wall_ms())


def clean(
    house: LogHouse,
    settings: CleanerSettings = SETTINGS,
    before_work: Callable[[int], None] = lambda _number: None,
) -> Cleaning | None:
    """Clean everything that may be cleaned, whatever its share is.

    Returns None if there is nothing to clean, or the log has changed meanwhile. `before_work` receives the number of
    each piece of work.
    """
    dirt = dirt_of(house)
    if not dirt.dirty_bytes:
        return None
    cleaning = Cleaning(house.log, dirt, settings, house.clock)
    works = cleaning.run()
    number = 0
    try:
        while True:
            work = next(works)
            before_work(number)
            number += 1
            try:
                work()
            except (OSError, KafkaError) as error:
                works.throw(error)
    except StopIteration as done:
        house.log.first_dirty_offset = done.value
    except CleaningStoppedError:
        return None
    finally:
        works.close()
    return cleaning


def append_keyed(
    house: LogHouse, *records: KeyValue, producer: ProducerStamp = NO_PRODUCER, codec: int = 0, leader_epoch: int = 0
) -> int:
    """Append one batch; return its base offset."""
    batch = encode_batch(records, house.clock.wall_ms(), producer)
    sent = memoryview(packed(codec, batch) if codec else batch)
    return house.log.append(sent, leader_epoch=leader_epoch).base_offset


def records_of(log: Log, from_offset: int = 0) -> list[Record]:
    """The records that a consumer reads from that offset on."""
    found: list[Record] = []
    offset = max(from_offset, log.log_start_offset)
    while (region := log.read(offset, 300, min_one=True, up_to=log.log_end_offset)) is not None:
        for header, batch in iter_batches(region.read()):
            assert checksum(batch) == header.crc
            assert header.last_offset >= offset
            plain = header._replace(attributes=header.attributes & ~COMPRESSION_MASK)
            body = body_of(header, batch, 1 << 20)
            whole = HEADER.pack(*plain._replace(length=HEADER_BYTES - OVERHEAD_BYTES + len(body))) + body
            found += [record for record in iter_records(whole) if record.offset >= offset]
            offset = header.last_offset + 1
    return found
