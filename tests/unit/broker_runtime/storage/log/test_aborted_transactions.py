"""The .txnindex files of a log: through rolls, restarts, crashes, truncations, and with damage."""

import random
import struct
from pathlib import Path

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.storage.compaction import dirt
from broker_runtime.storage.disk.filesystem import read_file
from broker_runtime.storage.log import log_transactions
from broker_runtime.storage.records import retention
from broker_runtime.storage.records.transactions import Ended
from broker_runtime.storage.segment import aborted_index
from broker_runtime.storage.segment.aborted_index import ENTRY, AbortedIndex
from kafka_bytes.checksum import crc32c
from tests.support.logs.logs import LOG_DIR, LogHouse
from tests.support.logs.transactions import committed_values, end, write

FOLDER = LOG_DIR / "orders-0"


@pytest.fixture
def house() -> LogHouse:
    return LogHouse(TopicConfig(segment_bytes=400))


def _files(house: LogHouse) -> list[str]:
    return sorted(name for name in house.fs.listdir(FOLDER) if name.endswith(".txnindex"))


def _fill(house: LogHouse) -> list[bytes | None]:
    """Write a transaction over several segments that is aborted, others in between, and return the committed values."""
    for number in range(6):
        write(house.log, b"aborted-%d" % number, producer_id=1, sequence=number)
        write(house.log, b"kept-%d" % number, producer_id=2, sequence=number)
        end(house.log, producer_id=2)
        write(house.log, b"short-%d" % number, producer_id=3, sequence=number)
        end(house.log, producer_id=3, is_commit=False)
    end(house.log, producer_id=1, is_commit=False)
    house.append(b"plain")
    return [*(b"kept-%d" % number for number in range(6)), b"plain"]


def test_an_entry_has_kafkas_form_and_a_checksum_follows_the_last_one(house: LogHouse) -> None:
    write(house.log, b"a", producer_id=7)
    write(house.log, b"b", producer_id=8)
    end(house.log, producer_id=7, is_commit=False)
    end(house.log, producer_id=8, is_commit=False)
    content = read_file(house.fs, FOLDER / "00000000000000000000.txnindex")
    entries = struct.pack(">hqqqq", 0, 7, 0, 2, 1) + struct.pack(">hqqqq", 0, 8, 1, 3, 4)
    assert content == entries + crc32c(entries).to_bytes(4, "big")


def test_only_segments_with_aborted_transactions_have_an_index(house: LogHouse) -> None:
    write(house.log, b"a" * 300)
    write(house.log, b"b" * 300, sequence=1)
    assert _files(house) == []
    end(house.log, is_commit=False)
    end(house.log, producer_id=2, is_commit=False)
    last = house.log.segments[-1].base_offset
    assert last > 0
    assert _files(house) == [f"{last:020d}.txnindex"]
    assert house.log.aborted_transactions(0, 1) == [(1, 0)]


@pytest.mark.parametrize("stop", ["restart", "kill"])
def test_transactions_survive_the_end_of_the_process(house: LogHouse, stop: str) -> None:
    expected = _fill(house)
    write(house.log, b"open", producer_id=4)
    open_at = house.log.log_end_offset - 1
    files, before = _files(house), house.log.aborted_transactions(0, open_at)
    assert len(house.log.segments) > 3
    getattr(house, stop)()
    assert (house.log.last_stable_offset, house.log.log_end_offset) == (open_at, open_at + 1)
    assert committed_values(house.log) == expected
    assert (_files(house), house.log.aborted_transactions(0, open_at)) == (files, before)
    end(house.log, producer_id=4, is_commit=False)
    assert house.log.aborted_transactions(open_at, open_at + 1) == [(4, open_at)]
    assert committed_values(house.log) == expected


@pytest.mark.parametrize("seed", range(20))
def test_no_aborted_record_is_seen_after_a_power_loss(house: LogHouse, seed: int) -> None:
    expected = _fill(house)
    if seed % 2:
        house.log.flush()
    house.lose_power(seed, keeps_names=bool(seed % 3))
    seen = committed_values(house.log)
    assert seen == expected[: len(seen)]
    if seed % 2:
        assert seen == expected


def test_a_truncation_drops_the_markers_that_it_cuts(house: LogHouse) -> None:
    _fill(house)
    house.log.start_replicating(0)
    for cut in range(house.log.log_end_offset, -1, -1):
        house.follower.truncate_to(cut)
        again = house.log.aborted_transactions(0, cut)
        house.kill()
        house.log.sole_replica = True
        assert house.log.aborted_transactions(0, cut) == again
        seen = [value or b"" for value in committed_values(house.log)]
        assert all(value.startswith((b"kept", b"plain")) for value in seen)
        house.log.start_replicating(0)
    assert _files(house) == []


def test_segments_that_expire_take_their_index_along(house: LogHouse) -> None:
    _fill(house)
    house.log.delete_records(house.log.log_end_offset)
    for _ in range(3):
        house.clock.advance(120)
        for _ in house.logs.tick():
            pass
    assert len(house.log.segments) == 1
    assert len([name for name in house.fs.listdir(FOLDER) if ".txnindex" in name]) <= 1


def _flipped(house: LogHouse, path: Path, bit: int) -> None:
    file = house.fs.open(path)
    content = bytearray(file.pread(file.size(), 0))
    content[bit // 8] ^= 1 << bit % 8
    file.write_at([bytes(content)], 0)


@pytest.mark.parametrize("stop", ["restart", "kill"])
@pytest.mark.parametrize("keeps_snapshots", [True, False])
def test_a_start_fills_a_damaged_index_from_the_batches(stop: str, keeps_snapshots: bool) -> None:
    house = LogHouse(TopicConfig(segment_bytes=400))
    expected = _fill(house)
    house.restart()
    contents = {name: read_file(house.fs, FOLDER / name) for name in _files(house)}
    assert len(contents) > 2
    for name, content in contents.items():
        for bit in range(0, 8 * len(content), 5):
            if not keeps_snapshots:
                for other in house.fs.listdir(FOLDER):
                    if other.endswith(".snapshot"):
                        house.fs.unlink(FOLDER / other)
            _flipped(house, FOLDER / name, bit)
            getattr(house, stop)()
            assert committed_values(house.log) == expected
            assert {name: read_file(house.fs, FOLDER / name) for name in _files(house)} == contents


@pytest.mark.parametrize("size", [0, 3, 20, 37, 38, 50])
def test_an_index_that_was_cut_short_is_filled(house: LogHouse, size: int) -> None:
    expected = _fill(house)
    house.restart()
    name = _files(house)[0]
    content = read_file(house.fs, FOLDER / name)
    house.fs.open(FOLDER / name).truncate(min(size, len(content) - 1))
    house.restart()
    assert committed_values(house.log) == expected
    assert read_file(house.fs, FOLDER / name) == content


def test_damaged_snapshots_lose_no_open_transaction(house: LogHouse) -> None:
    write(house.log, b"open", producer_id=9)
    expected = _fill(house)
    house.restart()
    snapshots = sorted(name for name in house.fs.listdir(FOLDER) if name.endswith(".snapshot"))
    for bit in range(0, 8 * 200, 37):
        for name in snapshots[: 1 + bit % 2]:
            if house.fs.exists(FOLDER / name) and bit // 8 < house.fs.open(FOLDER / name).size():
                _flipped(house, FOLDER / name, bit)
        house.restart()
        assert house.log.last_stable_offset == 0
    end(house.log, producer_id=9, is_commit=False)
    assert committed_values(house.log) == expected


def test_lookups_end_at_the_first_entry_whose_stable_offset_is_high_enough() -> None:
    house = LogHouse()
    index = AbortedIndex(house.fs, Path("/x.txnindex"), is_new=True)
    for ended in (Ended(1, 0, 4, 2), Ended(2, 2, 6, 7), Ended(3, 8, 9, 10), Ended(4, 10, 12, 13)):
        index.append(ended)
    found: list[tuple[int, int]] = []
    assert index.collect(0, 3, found)
    assert found == [(1, 0), (2, 2)]
    found.clear()
    assert not index.collect(5, 100, found)
    assert found == [(2, 2), (3, 8), (4, 10)]
    assert len(index) == 4
    assert ENTRY.size == 34


def test_lookups_find_what_a_search_of_all_entries_finds() -> None:
    house = LogHouse()
    index = AbortedIndex(house.fs, Path("/x.txnindex"), is_new=True)
    draw = random.Random(7)
    entries = []
    for last in range(10, 6_010, 6):
        first = max(last - draw.choice((1, 3, 5, 200, 3_000)), 0)
        entries.append(Ended(last % 5, first, last, 0))
    for ended in entries:
        index.append(ended)
    for cut in (6_010, 3_001, 2_000, 300):
        index.cut(cut)
        kept = [ended for ended in entries if ended.last_offset < cut]
        for _ in range(200):
            offset, size = draw.randrange(6_000), draw.randrange(1, 500)
            found: list[tuple[int, int]] = []
            index.collect(offset, offset + size, found)
            overlapping = [each for each in kept if each.last_offset >= offset and each.first_offset < offset + size]
            assert found == [(each.producer_id, each.first_offset) for each in overlapping]


def _many(house: LogHouse, transactions: int) -> None:
    """Write transactions that are aborted while another one stays open."""
    write(house.log, b"open", producer_id=0)
    for number in range(1, transactions + 1):
        write(house.log, b"aborted", producer_id=number)
        end(house.log, producer_id=number, is_commit=False)


def test_a_segment_is_full_with_many_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ABORTED_PER_SEGMENT_MAX", 10)
    house = LogHouse()
    _many(house, 35)
    assert [segment.aborted_count for segment in house.log.segments] == [10, 10, 10, 5]
    house.restart()
    assert [segment.aborted_count for segment in house.log.segments] == [10, 10, 10, 5]
    monkeypatch.setattr(dirt, "ABORTED_PER_SEGMENT_MAX", 20)
    assert list(dirt.grouped(house.log.segments, TopicConfig())) == [(0, 2), (2, 4)]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_lookup_reads_only_indexes_with_transactions_that_began_early_enough(
    monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    """While a transaction stays open, a lookup would read the indexes of all later segments."""
    monkeypatch.setattr(retention, "ABORTED_PER_SEGMENT_MAX", 10)
    house = LogHouse()
    _many(house, 45)
    if is_restarted:
        house.restart()
    for segment in house.log.segments:
        for _ in range(2):
            segment.indexes.release()
    read = list[Path]()

    def noted(fs: object, path: Path) -> bytes:
        read.append(path)
        return read_file(house.fs, path)

    monkeypatch.setattr(aborted_index, "read_file", noted)
    assert house.log.aborted_transactions(0, 5) == [(1, 1), (2, 3)]
    end(house.log, producer_id=0, is_commit=False)
    assert house.log.aborted_transactions(0, 5) == [(1, 1), (2, 3), (0, 0)]
    first, *_, active = (segment.indexes.offsets.path.with_suffix(".txnindex") for segment in house.log.segments)
    assert set(read) == {first, active}, "the active one has got an entry"


def test_a_read_is_limited_by_the_aborted_transactions_that_end_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_transactions, "_ABORTED_OF_A_READ", 3)
    house = LogHouse(TopicConfig(segment_bytes=10_000))
    assert house.log.limited_read(0) is None
    _many(house, 5)
    assert [house.log.limited_read(offset) for offset in (0, 2, 3, 6, 7, 11)] == [7, 7, 9, 11, None, None]
