"""A log with damaged ranges in use: found at run time, cut, expired, searched by time, and cleaned around."""

import asyncio
from collections.abc import Callable

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.coordination.replay import replay
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.time_search import FoundRecord, first_since, newest
from broker_runtime.storage.segment.damaged_ranges import DamagedRange, range_at, stretches
from kafka_bytes.batches import HEADER_BYTES, parse_header
from tests.support.logs.damaged_house import COUNT, DamagedHouse, everything, served
from tests.support.logs.logs import values_of
from tests.support.logs.time_searches import run_through


def test_a_range_is_found_by_its_offsets_and_by_where_it_ends() -> None:
    house = DamagedHouse()
    house.find(7, 8, 20, 22)
    ranges, known = house.log.damage, house.log.files.damage
    assert house.unreadable == [(7, 9), (20, 21), (22, 23)]
    found = {offset: range_at(ranges, offset) for offset in (6, 7, 8, 9, 20, 21, 22, 23)}
    assert [offset for offset, each in found.items() if each is not None] == [7, 8, 20, 22]
    assert [known.first_from(offset) for offset in (0, 8, 9, 20, 22)] == [*ranges[:1] * 2, *ranges[1:2] * 2, ranges[2]]
    assert known.first_from(23) is None
    assert house.log.is_damaged
    house.log.high_watermark = COUNT
    house.log.delete_records(8)
    assert house.unreadable == [(8, 9), (20, 21), (22, 23)]
    house.log.delete_records(23)
    assert not house.log.is_damaged


@pytest.mark.parametrize("at", [0, 16, 17, HEADER_BYTES + 2], ids=["offset", "magic", "crc", "records"])
@pytest.mark.parametrize("first_at", [16, HEADER_BYTES + 2])
def test_a_whole_batch_between_two_damaged_ones_is_served(first_at: int, at: int) -> None:
    house = DamagedHouse()
    house.flip(20, first_at)
    house.flip(22, at)
    house.log.suspect(20)
    assert house.unreadable == [(20, 21), (22, 23)]
    assert house.read(21) == [b"21"]


def test_a_batch_without_a_header_is_damaged_alone() -> None:
    house = DamagedHouse()
    segment, position = house.place_of(20)
    house.flip(22)
    house.fs.open(segment.path).write_at([bytes(HEADER_BYTES)], position)
    house.log.suspect(20)
    assert house.unreadable == [(20, 21), (22, 23)]


def test_stretches_are_what_lies_outside_of_the_damaged_bytes() -> None:
    ranges = [DamagedRange(1, 2, 10, 20, ""), DamagedRange(5, 6, 30, 35, ""), DamagedRange(8, 9, 50, 50, "")]
    assert list(stretches(ranges, 0, 50)) == [(0, 10), (20, 30), (35, 50)]
    assert list(stretches(ranges, 10, 33)) == [(20, 30)]
    assert list(stretches(ranges, 20, 30)) == [(20, 30)]
    assert list(stretches(ranges, 12, 15)) == []
    assert list(stretches([], 3, 3)) == []


def test_a_read_that_meets_no_batch_has_the_segment_checked_and_all_else_is_served() -> None:
    house = DamagedHouse()
    house.flip(20)
    assert house.read(20) == ErrorCode.KAFKA_STORAGE_ERROR, "it is not known yet what is damaged"
    assert house.read(20) == ErrorCode.CORRUPT_MESSAGE
    assert (house.unreadable, served(house)) == ([(20, 21)], everything(20))
    assert house.logs.damage.logs() == [house.log]
    house.restart()
    assert (house.unreadable, served(house)) == ([(20, 21)], everything(20)), "the next start finds it, too"


@pytest.mark.parametrize("max_bytes", [80, 300, 600])
@pytest.mark.parametrize(("at", "bits"), [(8, 0x40), (9, 1), (10, 0x40), (10, 2), (10, 1)])
def test_a_batch_that_says_it_is_longer_is_never_sent_in_part(at: int, bits: int, max_bytes: int) -> None:
    """A reader that gets only a part of a batch would ask for the same for ever."""
    house = DamagedHouse()
    house.flip(18, at, bits)
    offset = 0
    while offset < COUNT:
        region = house.read_region(offset, max_bytes)
        if isinstance(region, ErrorCode):
            # KAFKA_STORAGE_ERROR until the damage is known: a reader tries again.
            damaged = range_at(house.log.damage, offset)
            assert damaged or house.unreadable
            offset = offset if damaged is None else damaged.next_offset
            continue
        first = parse_header(region, 0)
        assert first.size <= len(region), offset
        offset = first.last_offset + 1
    assert house.unreadable in ([(18, 19)], []), "where it ends within the answer only its checksum tells"


@pytest.mark.parametrize(("at", "bits"), [(16, 1), (8, 0x80)], ids=["magic", "length"])
def test_a_damage_is_noticed_although_the_position_of_the_batch_is_known(at: int, bits: int) -> None:
    """A continuing or waiting reader skips the look-up of the position, but not the check of the header."""
    house = DamagedHouse()
    segment, _ = house.place_of(25)
    assert house.log.read(25, 1, min_one=True, up_to=26)
    house.flip(25, at, bits)
    with pytest.raises(KafkaError) as told:
        house.log.read(25, 1000, min_one=True, up_to=26)
    assert told.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [(each.first_offset, each.next_offset) for each in segment.damage] == [(25, 26)]


@pytest.mark.parametrize("at", [5, HEADER_BYTES + 2])
def test_bytes_that_cannot_be_read_are_a_damage(at: int) -> None:
    house = DamagedHouse(TopicConfig(segment_bytes=100_000, index_interval_bytes=100))
    for _ in range(200):
        for each in (house, house.twin):
            each.append(b"v" * 400, leader_epoch=6)
    segment, position = house.place_of(20)
    house.fs.spoil(segment.path, position + at, position + at + 1)
    house.log.segments[-1]._doubt()
    assert house.read(20) == ErrorCode.KAFKA_STORAGE_ERROR
    assert house.read(20) == ErrorCode.CORRUPT_MESSAGE
    ((first, next_offset),) = house.unreadable
    assert first == 20
    assert next_offset == 21 if at > HEADER_BYTES else next_offset < 100
    assert house.read(19) == [b"19"]
    assert house.read(next_offset) != ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("max_bytes", [1, 80, 200, 10_000])
def test_records_just_before_unreadable_bytes_are_served(max_bytes: int) -> None:
    """A read ahead of the batches would fail for ever."""
    house = DamagedHouse()
    segment, position = house.place_of(20)
    house.fs.spoil(segment.path, position + 6, position + 7)
    house.read(20)
    assert house.unreadable == [(20, 28)]
    for offset in range(14, 20):
        values = house.read(offset, max_bytes)
        assert isinstance(values, list)
        assert values == [b"%02d" % number for number in range(offset, offset + len(values))]
        assert len(values) == (min(20 - offset, max(max_bytes // 71, 1)))


def test_a_damage_that_is_over_is_noticed_by_the_next_reader_ten_minutes_later() -> None:
    house = DamagedHouse()
    house.find(20, 30)
    house.flip(20)
    assert house.read(20) == ErrorCode.CORRUPT_MESSAGE
    house.clock.advance(601)
    for _ in range(2):
        told = house.read(20)
    assert told == [b"20"]
    assert (house.unreadable, served(house)) == ([(30, 31)], everything(30))
    house.restart()
    assert (house.unreadable, served(house)) == ([(30, 31)], everything(30))


def test_an_unreadable_file_is_one_damaged_range() -> None:
    house = DamagedHouse()
    segment, _ = house.place_of(20)
    house.fs.spoil(segment.path, 0, segment.size)
    house.read(20)
    assert house.unreadable == [(segment.base_offset, segment.next_offset)]
    assert served(house) == everything(*range(segment.base_offset, segment.next_offset))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("is_lost", [True, False])
def test_an_index_that_is_lost_or_unreadable_is_made_again_while_the_log_is_in_use(suffix: str, is_lost: bool) -> None:
    house = DamagedHouse()
    house.restart()
    segment, _ = house.place_of(20)
    for _ in range(2):
        segment.indexes.release()
    path = segment.path.with_suffix(suffix)
    content = house.fs.open(path).pread(1000, 0)
    if is_lost:
        house.fs.lose(path)
    else:
        house.fs.spoil(path, 0, 1)
    first_try = house.read(20)
    assert first_try in (ErrorCode.KAFKA_STORAGE_ERROR, [b"20"])
    if suffix == ".timeindex":
        with pytest.raises(OSError, match=suffix if is_lost else "input/output"):
            _since(house, 20)
    found = _since(house, 20)
    assert found is not None
    assert found.offset == 20
    assert house.read(20) == [b"20"]
    assert house.unreadable == []
    assert house.fs.open(path).pread(1000, 0) == content
    house.restart()
    assert values_of(house.log) == everything()


def test_damage_in_the_active_segment_begins_a_new_one() -> None:
    house = DamagedHouse()
    base = house.log.segments[-1].base_offset
    house.find(base)
    assert house.unreadable == [(base, base + 1)]
    assert house.append(b"on") == COUNT
    assert house.log.segments[-1].base_offset == COUNT
    house.kill()
    assert served(house) == [*everything(base), b"on"]


def test_a_read_that_fails_for_another_reason_finds_no_damage() -> None:
    house = DamagedHouse()
    house.log.files.release_idle()
    house.log.files.release_idle()
    house.fs.no_descriptors = True
    assert house.read(20) == ErrorCode.KAFKA_STORAGE_ERROR
    house.fs.no_descriptors = False
    assert (house.unreadable, served(house)) == ([], everything())


@pytest.mark.parametrize("offset", [20, 21, 22, 30])
def test_a_cut_at_and_behind_a_damage(offset: int) -> None:
    """Offsets 20 and 21 are damaged: they are one piece for a cut."""
    house = DamagedHouse()
    house.find(20, 21)
    house.log.sole_replica = False
    house.follower.truncate_to(offset)
    end = 20 if offset == 21 else offset
    assert house.log.log_end_offset == end
    assert house.unreadable == ([] if end == 20 else [(20, 22)])
    house.log.sole_replica = True
    assert house.append(b"on", leader_epoch=9) == end
    house.kill()
    expected = [value for number, value in enumerate(everything()) if number < end and number not in (20, 21)]
    assert served(house) == [*expected, b"on"]


def test_a_log_start_inside_or_behind_a_damage() -> None:
    house = DamagedHouse()
    house.find(20, 21, 40)
    house.log.delete_records(21)
    assert house.unreadable == [(21, 22), (40, 41)]
    house.log.delete_records(22)
    assert house.unreadable == [(40, 41)]
    house.log.delete_records(41)
    assert (house.unreadable, house.logs.damage.logs()) == ([], [])
    house.kill()
    assert (house.unreadable, values_of(house.log)) == ([], everything()[41:])


def test_a_damaged_segment_expires_with_those_around_it() -> None:
    """The records of the damaged segment may be as new as those that follow."""
    house = DamagedHouse(TopicConfig(segment_bytes=1000, retention_ms=100_000))
    segment = house.log.segments[1]
    house.find(*range(segment.base_offset, segment.next_offset))
    newest_there = house.log.segments[2].max_timestamp
    house.clock.advance((newest_there + 100_000 - house.clock.wall_ms()) / 1000)
    at_once(house.logs.tick())
    assert house.log.log_start_offset == segment.base_offset
    assert house.unreadable == [(segment.base_offset, segment.next_offset)]
    house.clock.advance(0.001)
    at_once(house.logs.tick())
    assert house.log.log_start_offset >= segment.next_offset
    assert (house.unreadable, house.logs.damage.logs()) == ([], [])


def _since(house: DamagedHouse, second: float) -> FoundRecord | None:
    return run_through(first_since(house.log, house.begin_ms + round(second * 1000), 1 << 20))


def test_a_search_by_time_passes_over_a_damage_that_cannot_hold_the_answer() -> None:
    house = DamagedHouse()
    house.find(20, 21)
    for second in (0, 5, 19, 23, 40, COUNT - 1):
        found = _since(house, second)
        assert found is not None
        assert found.offset == second
    assert _since(house, COUNT) is None
    assert run_through(newest(house.log, 1 << 20)) == (59, house.begin_ms + 59_000, 5)
    for second in (20, 21, 22):
        with pytest.raises(KafkaError) as told:
            _since(house, second)
        assert told.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_search_by_time_over_a_damaged_end_says_so() -> None:
    house = DamagedHouse()
    house.find(COUNT - 1)
    with pytest.raises(KafkaError):
        _since(house, COUNT)


def test_epochs_are_known_although_the_batch_that_began_one_is_damaged() -> None:
    house = DamagedHouse()
    house.find(20, 39)
    ends = [house.log.end_offset_for_epoch(epoch) for epoch in range(7)]
    house.kill()
    assert [house.log.end_offset_for_epoch(epoch) for epoch in range(7)] == ends
    house.fs.lose(house.log.place.folder / "leader-epoch-checkpoint")
    house.kill()
    assert house.log.end_offset_for_epoch(1) == (1, 21), "by the first batch that can be read"
    assert house.log.end_offset_for_epoch(3) == (3, 40)


def test_a_cleaning_leaves_a_damaged_segment_and_all_behind_it_alone() -> None:
    """Otherwise a tombstone behind it could be removed, and its key would return once the damage is mended."""
    house = DamagedHouse(TopicConfig(cleanup_policy=("compact",), segment_bytes=1000, min_cleanable_dirty_ratio=0.0))
    house.log.flush()
    segment = house.log.segments[2]
    house.find(segment.base_offset + 2)
    assert asyncio.run(house.logs.cleaner.clean_filthiest())
    assert house.log.first_dirty_offset == segment.base_offset
    assert not asyncio.run(house.logs.cleaner.clean_filthiest())
    house.mend()
    house.log.flush()
    assert asyncio.run(house.logs.cleaner.clean_filthiest())
    assert house.log.first_dirty_offset > segment.base_offset


def test_a_cleaning_that_meets_a_damage_has_the_segment_checked_and_is_not_given_up() -> None:
    house = DamagedHouse(TopicConfig(cleanup_policy=("compact",), segment_bytes=1000, min_cleanable_dirty_ratio=0.0))
    house.log.flush()
    segment = house.log.segments[2]
    house.flip(segment.base_offset + 2, HEADER_BYTES + 2)
    for _ in range(5):
        asyncio.run(house.logs.cleaner.clean_filthiest())
    assert house.unreadable == [(segment.base_offset + 2, segment.base_offset + 3)]
    assert house.log.first_dirty_offset == segment.base_offset
    assert house.logs.cleaner.figures.uncleanable_partitions == 0


@pytest.mark.parametrize(("at", "number"), [(5, 0), (3, 2), (7, 2), (5, 13)])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_cleaning_believes_no_base_offset_that_does_not_fit_between_the_others(
    at: int, gaps: bool, number: int
) -> None:
    """The base offset is outside of the checksum.

    If it is too high, the newest record of a key looks like an old one.
    """
    house = DamagedHouse(TopicConfig(cleanup_policy=("compact",), segment_bytes=1000, min_cleanable_dirty_ratio=0.0))
    if gaps:
        house.log.files.swaps.allow_gaps("a test")
    house.log.flush()
    segment = house.log.segments[2]
    house.flip(segment.base_offset + number, at, 0x40)
    for _ in range(5):
        asyncio.run(house.logs.cleaner.clean_filthiest())
    lost = (segment.base_offset + number,)
    assert house.unreadable == [(lost[0], lost[0] + 1)]
    for offset in range(segment.base_offset, COUNT):
        assert house.read(offset) == ([b"%02d" % offset] if offset not in lost else ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("offset", [20, COUNT - 1])
@pytest.mark.parametrize("bits", [0x20, 0x01])
def test_a_replay_ends_at_a_base_offset_that_does_not_fit(offset: int, bits: int) -> None:
    """Previously a lower base offset in the last batch of a log made the replay read it again and again."""
    house = DamagedHouse()
    house.flip(offset, 7, bits)

    async def replayed() -> None:
        async with asyncio.timeout(20):
            await replay(house.log, 0, COUNT, lambda _: None)

    with pytest.raises(KafkaError) as told:
        asyncio.run(replayed())
    assert told.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("end", [DamagedHouse.restart, DamagedHouse.kill])
@pytest.mark.parametrize("keeps_index", [True, False])
@pytest.mark.parametrize(("at", "bits"), [(5, 0x40), (7, 0x40), (7, 0x02)])
def test_a_base_offset_behind_the_next_segment_takes_only_its_own_batch_of_a_cleaned_log(
    end: Callable[[DamagedHouse], object], keeps_index: bool, at: int, bits: int
) -> None:
    """Previously the segment seemed to reach into the next one, which took the whole partition offline."""
    house = DamagedHouse()
    house.log.files.swaps.allow_gaps("a test")
    house.log.flush()
    house.logs.note_recovery_points()
    segment = house.log.segments[2]
    last = segment.next_offset - 1
    house.flip(last, at, bits)
    if not keeps_index:
        house.fs.lose(segment.path.with_suffix(".index"))
    end(house)
    assert (house.unreadable, served(house)) == ([(last, last + 1)], everything(last))
    house.mend()
    assert values_of(house.log) == everything()
