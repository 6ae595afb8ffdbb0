"""A log in memory with damaged files, and what it then serves."""

from pathlib import Path
from random import Random

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.storage.segment.damaged_ranges import range_at
from broker_runtime.storage.segment.segment import Segment
from kafka_bytes.batches import HEADER_BYTES, encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR, TOPIC_ID

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=100, retention_ms=-1)
EVERYTHING = [b"%02d" % number for number in range(50)]
FOLDER = LOG_DIR / "orders-0"


class Node:
    """A log of 50 batches in several segments under two epochs, and the faults of its disk."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.clock = ManualClock()
        self.boot = "boot-1"
        self.start()
        self.logs.create("orders", 0, TOPIC_ID, CONFIG).sole_replica = True
        for number, value in enumerate(EVERYTHING):
            self.log.append(memoryview(encode_batch([(b"k", value)], 1000 + number)), leader_epoch=number // 30)
        self.logs.run_record.registered(7)

    @property
    def log(self) -> Log:
        found = self.logs.get("orders", 0)
        assert found is not None
        return found

    @property
    def reason(self) -> str:
        """Why the partition is not served."""
        return self.logs.damaged["orders", 0].reason

    @property
    def unreadable(self) -> list[tuple[int, int]]:
        """First and last offset of each damaged range."""
        return [(damaged.first_offset, damaged.next_offset - 1) for damaged in self.log.damage]

    def damage_batch(self, offset: int, at: int = HEADER_BYTES + 2, bits: int = 1) -> None:
        """Flip bits of a byte of this batch, and drop the index of its segment. No process may be running."""
        segment, position = self.place_of(offset)
        self.flip(segment.path, position + at, bits)
        index = segment.path.with_suffix(".index")
        if self.fs.exists(index):
            self.fs.lose(index)

    def place_of(self, offset: int) -> tuple[Segment, int]:
        """The segment of the last process that has this batch, and the batch's position in it."""
        segment = next(each for each in self.last.segments if each.base_offset <= offset < each.next_offset)
        position = segment.position_of(offset)
        assert position is not None
        return segment, position

    def start(self) -> None:
        self.logs = LogManager(LOG_DIR, fs=self.fs, clock=self.clock, boot_id=self.boot)
        self.report = self.logs.open(lambda _topic: CONFIG)
        log = self.logs.get("orders", 0)
        if log is not None:
            log.sole_replica = True

    def stop(self) -> None:
        self._remember()
        self.logs.close()
        self.fs = self.fs.process_killed()

    def kill(self) -> None:
        self._remember()
        self.fs = self.fs.process_killed()

    def _remember(self) -> None:
        found = self.logs.get("orders", 0)
        if found is not None:
            self.last = found
            """The log as it was at the end of the last process."""

    def sync(self) -> None:
        """Write all records and the recovery point to disk."""
        self.log.flush()
        self.clock.advance(61)
        at_once(self.logs.tick())

    def lose_power(self) -> None:
        self._remember()
        self.fs = self.fs.power_loss(Random(1))
        self.boot += "+"

    def segment(self, number: int) -> Path:
        bases = sorted(name for name in self.fs.listdir(FOLDER) if name.endswith(".log"))
        return FOLDER / bases[number]

    def flip(self, path: Path, at: int, bit: int = 1) -> None:
        file = self.fs.open(path)
        file.write_at([bytes([file.pread(1, at)[0] ^ bit])], at)
        file.fsync()

    def lose_index(self, number: int) -> None:
        index = self.segment(number).with_suffix(".index")
        if self.fs.exists(index):
            self.fs.unlink(index)
            self.fs.fsync_dir(FOLDER)

    def files(self) -> dict[str, bytes]:
        return {
            name: self.fs.open(FOLDER / name).pread(1 << 20, 0)
            for name in self.fs.listdir(FOLDER)
            if name.endswith(".log")
        }


def served(log: Log) -> dict[int, bytes | None]:
    """Every record by its offset, as read by a consumer that skips damaged ranges."""
    found: dict[int, bytes | None] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        damaged = range_at(log.damage, offset)
        if damaged is not None:
            with pytest.raises(KafkaError) as told:
                log.read(offset, 300, min_one=True, up_to=log.log_end_offset)
            assert told.value.code == ErrorCode.CORRUPT_MESSAGE
            offset = damaged.next_offset
            continue
        region = log.read(offset, 300, min_one=True, up_to=log.log_end_offset)
        assert region is not None
        for header, batch in iter_batches(region.read()):
            found |= {record.offset: record.value for record in iter_records(batch)}
            offset = header.last_offset + 1
    return found


def all_but(*offsets: int) -> dict[int, bytes | None]:
    return {offset: value for offset, value in enumerate(EVERYTHING) if offset not in offsets}
