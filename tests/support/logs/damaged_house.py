"""A log whose segments are damaged, beside a twin that has the same records and no damage."""

import asyncio

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.damage.mending import MissingBatches, NotSuppliedError, Supplied, mend
from broker_runtime.storage.records.batch import iter_batches, iter_records
from broker_runtime.storage.segment.damaged_ranges import range_at
from broker_runtime.storage.segment.segment import Segment
from tests.support.logs.logs import LogHouse

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=100)
COUNT = 60


class DamagedHouse(LogHouse):
    """A log with one batch for each second and one epoch for each ten batches, and its twin without damage."""

    def __init__(self, config: TopicConfig = CONFIG) -> None:
        super().__init__(config)
        self.twin = LogHouse(config)
        self.twin_lacks: tuple[int, ...] = ()
        for number in range(COUNT):
            for house in (self, self.twin):
                house.append(b"%02d" % number, leader_epoch=number // 10)
                house.clock.advance(1)
        self.begin_ms = self.clock.wall_ms() - COUNT * 1000
        self.log.flush()
        self.logs.note_recovery_points()

    def place_of(self, offset: int) -> tuple[Segment, int]:
        segment, whole = (
            next(each for each in log.segments if each.base_offset <= offset < each.next_offset)
            for log in (self.log, self.twin.log)
        )
        position = whole.position_of(offset)
        assert position is not None
        return segment, position

    def flip(self, offset: int, at: int = 16, bits: int = 0x40) -> None:
        """Damage a batch, by default in its magic, which each reader checks."""
        segment, position = self.place_of(offset)
        self.fs.flip(segment.path, position + at, bits)

    def find(self, *offsets: int) -> None:
        """Damage these batches, and read each."""
        for offset in offsets:
            self.flip(offset)
        for offset in offsets:
            self.read(offset)

    def read(self, offset: int, max_bytes: int = 80) -> ErrorCode | list[bytes | None]:
        """Values, or the error code if there are none."""
        found = self.read_region(offset, max_bytes)
        if isinstance(found, ErrorCode):
            return found
        return [record.value for _, batch in iter_batches(found) for record in iter_records(batch)]

    def read_region(self, offset: int, max_bytes: int) -> ErrorCode | bytes:
        try:
            region = self.log.read(offset, max_bytes, min_one=True, up_to=self.log.log_end_offset)
        except KafkaError as error:
            return error.code
        assert region is not None
        return region.read()

    @property
    def unreadable(self) -> list[tuple[int, int]]:
        return [(damaged.first_offset, damaged.next_offset) for damaged in self.log.damage]

    async def supply(self, wanted: MissingBatches) -> Supplied:
        """Supply batches from the twin, as another replica answers.

        Raises NotSuppliedError also for offsets in `twin_lacks`.
        """
        if wanted.offset in self.twin_lacks:
            raise NotSuppliedError(f"nobody has {wanted.offset}")
        up_to = min((each for each in self.twin_lacks if each > wanted.offset), default=wanted.next_offset)
        region = self.twin.log.read(wanted.offset, 200, min_one=True, up_to=min(up_to, wanted.next_offset))
        assert region is not None
        records = region.read()
        last = list(iter_batches(records))[-1][0].last_offset
        return Supplied(records, last + 1, may_have_gaps=False)

    def mend(self) -> None:
        async def all_of_it() -> None:
            while damaged := [segment for segment in self.log.segments if segment.damage]:
                await mend(self.log, damaged[0], self.supply)

        asyncio.run(all_of_it())


def everything(*but: int) -> list[bytes | None]:
    return [b"%02d" % number for number in range(COUNT) if number not in but]


def served(house: DamagedHouse) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = house.log.log_start_offset
    while offset < house.log.log_end_offset:
        damaged = range_at(house.log.damage, offset)
        if damaged is not None:
            assert house.read(offset) == ErrorCode.CORRUPT_MESSAGE
            offset = damaged.next_offset
            continue
        values = house.read(offset)
        assert isinstance(values, list)
        found += values
        offset += len(values)
    return found
