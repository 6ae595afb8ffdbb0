"""The expected log of a replica as a list of batches, and batches as a leader sends them."""

from dataclasses import dataclass
from struct import pack_into

from broker_runtime.storage.log.log import Log
from broker_runtime.storage.records.batch import iter_batches, iter_records
from kafka_bytes.batches import NO_PRODUCER, ProducerStamp, encode_batch


@dataclass(frozen=True)
class ModelBatch:
    """One batch of a replica's log: base offset, leader epoch, values and producer."""

    base: int
    epoch: int
    values: tuple[bytes, ...]
    producer: ProducerStamp = NO_PRODUCER

    @property
    def end(self) -> int:
        return self.base + len(self.values)

    def encoded(self, timestamp_ms: int) -> bytes:
        """The batch as the leader has it: its offset and epoch are outside the checksum."""
        batch = bytearray(encode_batch([(b"k", value) for value in self.values], timestamp_ms, self.producer))
        pack_into(">q", batch, 0, self.base)
        pack_into(">i", batch, 12, self.epoch)
        return bytes(batch)


def epoch_end(batches: list[tuple[int, int]], asked: int, log_end: int) -> tuple[int, int]:
    """The epoch and end offset of KIP-101, from the (base offset, epoch) of every batch."""
    if asked < 0:
        return -1, -1
    known = max((epoch for _, epoch in batches if epoch <= asked), default=asked)
    return known, min((base for base, epoch in batches if epoch > asked), default=log_end)


def stored(log: Log) -> list[ModelBatch]:
    """Every batch from the log's start to its end, as followers read them."""
    found = []
    offset = log.log_start_offset
    while (region := log.read(offset, 300, min_one=True, up_to=log.log_end_offset)) is not None:
        for header, batch in iter_batches(region.read()):
            values = tuple(record.value or b"" for record in iter_records(batch))
            stamp = ProducerStamp(header.producer_id, header.producer_epoch, header.base_sequence)
            found.append(ModelBatch(header.base_offset, header.leader_epoch, values, stamp))
            offset = header.last_offset + 1
    return found
