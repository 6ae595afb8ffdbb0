"""Damaged ranges that are mended from another replica, in whole or in part, or whose loss is accepted."""

import asyncio
from collections.abc import Callable

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.damage.mending import MissingBatches, NotSuppliedError, Supplied, mend, nothing_for
from broker_runtime.storage.log.replacing import ReplacingStoppedError
from broker_runtime.storage.records.batch import iter_batches
from kafka_bytes.batches import HEADER_BYTES, encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.logs.damaged_house import COUNT, DamagedHouse, everything, served
from tests.support.logs.logs import values_of


@pytest.mark.parametrize("offsets", [(20,), (20, 21, 22), (14, 27), (0, 13, 14, 15, 40, 59)])
def test_damaged_ranges_are_mended_by_the_batches_of_another_replica(offsets: tuple[int, ...]) -> None:
    house = DamagedHouse()
    house.find(*offsets)
    assert served(house) == everything(*offsets)
    house.mend()
    assert (house.unreadable, values_of(house.log)) == ([], everything())
    assert house.append(b"on", leader_epoch=6) == COUNT
    for end in (house.kill, house.restart):
        end()
        assert (house.unreadable, values_of(house.log)) == ([], [*everything(), b"on"])
    assert not house.log.files.swaps.may_have_gaps


def test_lost_segments_are_made_again_none_larger_than_a_segment() -> None:
    house = DamagedHouse()
    house.log.flush()
    house.logs.close()
    for segment in house.log.segments[1:4]:
        house.fs.lose(segment.path)
    house.kill()
    assert len(house.unreadable) == 1
    house.mend()
    assert (house.unreadable, values_of(house.log)) == ([], everything())
    assert all(segment.size <= 1300 for segment in house.log.segments)
    house.kill()
    assert (house.unreadable, values_of(house.log)) == ([], everything())


def test_at_whatever_moment_a_mending_is_killed_the_segment_is_damaged_or_whole() -> None:
    for keeps_names in (False, True):
        damaged, whole = set[int](), set[int]()
        for moment in range(1, 60):
            house = DamagedHouse()
            house.log.flush()
            house.find(20, 21)
            copies: list[MemoryFileSystem] = []
            left = [moment]

            def stop(
                house: DamagedHouse = house, copies: list[MemoryFileSystem] = copies, left: list[int] = left
            ) -> None:
                left[0] -= 1
                if left[0] == 0:
                    copies.append(house.fs.copy())

            house.fs.before_change = stop
            house.mend()
            if not copies:
                break
            house.fs = copies[0]
            house.lose_power(moment, keeps_names=keeps_names)
            is_damaged = house.unreadable == [(20, 22)]
            assert served(house) == everything(*((20, 21) if is_damaged else ()))
            (damaged if is_damaged else whole).add(moment)
        assert damaged
        assert whole


def _mended_in_part(house: DamagedHouse, offset: int) -> None:
    segment, _ = house.place_of(offset)
    with pytest.raises(NotSuppliedError):
        asyncio.run(mend(house.log, segment, house.supply))


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(
    ("damaged", "lacks", "left"),
    [((16, 20), (16,), [(16, 17)]), ((16, 20), (20,), [(20, 21)]), ((17, 18, 19, 22), (18,), [(18, 20)])],
)
def test_what_is_supplied_is_mended_and_the_rest_stays_damaged(
    damaged: tuple[int, ...], lacks: tuple[int, ...], left: list[tuple[int, int]], compacted: bool
) -> None:
    house = DamagedHouse(TopicConfig(segment_bytes=1000, index_interval_bytes=100))
    if compacted:
        house.log.files.swaps.allow_gaps("a test")
    house.find(*damaged)
    house.twin_lacks = lacks
    lost = [offset for first, end in left for offset in range(first, end)]
    size = 0
    for _ in range(3):
        _mended_in_part(house, 16)
        assert (house.unreadable, served(house)) == (left, everything(*lost))
        assert size in (0, house.log.size), "a second try does not make it larger"
        size = house.log.size
    for end in (house.kill, house.restart, lambda: house.lose_power(1)):
        end()
        assert (house.unreadable, served(house)) == (left, everything(*lost))
    house.twin_lacks = ()
    house.mend()
    assert (house.unreadable, values_of(house.log)) == ([], everything())
    house.restart()
    assert (house.unreadable, values_of(house.log)) == ([], everything())


def test_at_whatever_moment_a_mending_in_part_is_killed_nothing_readable_is_lost() -> None:
    seen = set[tuple[tuple[int, int], ...]]()
    for keeps_names in (False, True):
        for moment in range(1, 60):
            house = DamagedHouse()
            house.log.flush()
            house.find(16, 20, 21)
            house.twin_lacks = (16, 21)
            copies: list[MemoryFileSystem] = []
            left = [moment]

            def stop(
                house: DamagedHouse = house, copies: list[MemoryFileSystem] = copies, left: list[int] = left
            ) -> None:
                left[0] -= 1
                if left[0] == 0:
                    copies.append(house.fs.copy())

            house.fs.before_change = stop
            _mended_in_part(house, 16)
            if not copies:
                break
            for seed in range(6):
                house.fs = copies[0].copy()
                house.lose_power(seed, keeps_names=keeps_names)
                seen.add(tuple(house.unreadable))
                lost = [offset for first, end in house.unreadable for offset in range(first, end)]
                assert served(house) == everything(*lost)
    assert seen == {((16, 17), (20, 22)), ((16, 17), (21, 22))}


def test_bytes_that_cannot_be_read_now_are_not_given_up_for_a_part_of_them() -> None:
    house = DamagedHouse()
    segment, position = house.place_of(17)
    house.fs.spoil(segment.path, position + 5, position + 6)
    house.find(15)
    assert house.unreadable == [(15, 16), (17, 28)]
    house.twin_lacks = (17,)
    with pytest.raises(OSError, match="input/output"):
        asyncio.run(mend(house.log, segment, house.supply))
    assert house.unreadable == [(15, 16), (17, 28)]
    house.twin_lacks = ()
    house.mend()
    assert values_of(house.log) == everything()


def test_nothing_is_written_where_nothing_is_supplied() -> None:
    house = DamagedHouse()
    house.find(16, 20)
    house.twin_lacks = (16, 20)
    changes: list[None] = []
    house.fs.before_change = lambda: changes.append(None)
    _mended_in_part(house, 16)
    assert changes == []


def _records(*offsets: int, epoch: int, value: bytes = b"other") -> bytes:
    found = bytearray()
    for offset in offsets:
        batch = bytearray(encode_batch([(b"k", value)], 1000))
        batch[:8] = offset.to_bytes(8, "big")
        batch[12:16] = epoch.to_bytes(4, "big")
        found += batch
    return bytes(found)


def _flipped(records: bytes) -> bytes:
    return records[: HEADER_BYTES + 2] + bytes([records[HEADER_BYTES + 2] ^ 1]) + records[HEADER_BYTES + 3 :]


@pytest.mark.parametrize(
    "supplied",
    [
        Supplied(_records(20, 21, epoch=1), 22, may_have_gaps=False),
        Supplied(_records(20, 21, epoch=3), 22, may_have_gaps=False),
        Supplied(_flipped(_records(20, 21, epoch=2)), 22, may_have_gaps=False),
        Supplied(_records(20, 21, 22, epoch=2), 23, may_have_gaps=False),
        Supplied(_records(19, 20, 21, epoch=2), 22, may_have_gaps=False),
        Supplied(_records(20, epoch=2), 22, may_have_gaps=False),
        Supplied(_records(21, epoch=2), 22, may_have_gaps=False),
        Supplied(_records(21, 20, epoch=2), 22, may_have_gaps=True),
        Supplied(_records(20, 21, epoch=2)[:-1], 22, may_have_gaps=True),
        Supplied(b"", 20, may_have_gaps=True),
        Supplied(b"", 23, may_have_gaps=True),
    ],
    ids=[
        "an older epoch",
        "a newer epoch",
        "a wrong checksum",
        "too much",
        "too early",
        "not the end",
        "not the beginning",
        "in disorder",
        "cut off",
        "no progress",
        "too far",
    ],
)
def test_what_does_not_fit_is_not_taken(supplied: Supplied) -> None:
    house = DamagedHouse()
    house.find(20, 21)

    async def supply(_: MissingBatches) -> Supplied:
        return supplied

    segment, _ = house.place_of(19)
    before = house.fs.listdir(house.log.place.folder)
    with pytest.raises(KafkaError):
        asyncio.run(mend(house.log, segment, supply))
    assert (house.unreadable, served(house)) == ([(20, 22)], everything(20, 21))
    assert house.fs.listdir(house.log.place.folder) == before
    house.mend()
    assert values_of(house.log) == everything()


def test_records_missing_from_a_cleaned_replica_are_replaced_by_empty_batches() -> None:
    house = DamagedHouse()
    house.find(20, 21, 22)

    async def supply(_: MissingBatches) -> Supplied:
        return Supplied(_records(21, epoch=2, value=b"21"), 23, may_have_gaps=True)

    segment, _ = house.place_of(19)
    asyncio.run(mend(house.log, segment, supply))
    assert (house.unreadable, values_of(house.log)) == ([], everything(20, 22))
    house.kill()
    assert (house.unreadable, values_of(house.log)) == ([], everything(20, 22))


def test_only_ranges_after_the_log_start_are_requested() -> None:
    house = DamagedHouse()
    house.find(20, 21)
    house.log.delete_records(21)
    house.twin.log.delete_records(21)
    house.mend()
    assert (house.unreadable, values_of(house.log)) == ([], everything()[21:])


def test_an_accepted_loss_leaves_offsets_without_records() -> None:
    house = DamagedHouse()
    house.find(20, 21, 30)

    async def supply(wanted: MissingBatches) -> Supplied:
        return nothing_for(wanted)

    for offset in (19, 29):
        segment, _ = house.place_of(offset)
        asyncio.run(mend(house.log, segment, supply))
    assert (house.unreadable, values_of(house.log)) == ([], everything(20, 21, 30))
    region = house.log.read(20, 80, min_one=True, up_to=COUNT)
    assert region is not None
    (header, _), *_ = iter_batches(region.read())
    assert (header.base_offset, header.last_offset, header.record_count, header.leader_epoch) == (20, 21, 0, 2)
    house.kill()
    assert (house.unreadable, values_of(house.log)) == ([], everything(20, 21, 30))


def _cut(house: DamagedHouse) -> None:
    house.log.sole_replica = False
    house.follower.truncate_to(10)


def _delete(house: DamagedHouse) -> None:
    house.logs.delete("orders", 0)


def _expire(house: DamagedHouse) -> None:
    house.log.delete_records(50)
    at_once(house.logs.tick())


def _fail(house: DamagedHouse) -> None:
    house.log.files.health.give_up("an fsync", OSError())


@pytest.mark.parametrize("change", [_cut, _delete, _expire, _fail])
def test_a_log_that_changes_under_a_mending_stays_as_it_is_then(change: Callable[[DamagedHouse], None]) -> None:
    house = DamagedHouse()
    house.find(20, 21)

    async def supply(wanted: MissingBatches) -> Supplied:
        change(house)
        return await house.supply(wanted)

    segment, _ = house.place_of(19)
    with pytest.raises(ReplacingStoppedError):
        asyncio.run(mend(house.log, segment, supply))
    if house.logs.get("orders", 0) is not None:
        assert not [name for name in house.fs.listdir(house.log.place.folder) if ".cleaned" in name or ".swap" in name]
