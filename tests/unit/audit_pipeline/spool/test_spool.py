"""Spools that are truncated or damaged anywhere: complete blocks are found, and missing numbers are reported."""

from pathlib import Path
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.spool.spool import SpoolContent, read_header, read_spool
from audit_pipeline.spool.tables import gaps_of
from broker_runtime.observers.audit_log.layout import packed_block
from broker_runtime.storage.disk.filesystem import read_file
from tests.support.audit.audit import AuditBench
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem

FOLDER = Path("/audit")


def killed_spool() -> tuple[bytes, bytes, int]:
    """A spool of a broker that was killed, its lock, and how many events it had recorded: 9 are written, 2 are not."""
    fs = MemoryFileSystem()
    bench = AuditBench(fs, FOLDER)
    for _ in range(3):
        bench.connect()
        bench.produce()
        bench.request()
        bench.settle()
    bench.request()
    bench.request()
    return read_file(fs, FOLDER / "0001-00000001.spool"), read_file(fs, FOLDER / "0001.lock"), 11


SPOOL, LOCK, RECORDED = killed_spool()


def covered(content: SpoolContent) -> list[int]:
    """All numbers in its blocks and its gaps, each as often as it is covered."""
    blocks = [(block.first_seq, block.last_seq) for block in content.blocks]
    gaps = [(gap.first_seq, gap.last_seq) for gap in gaps_of(content, None, ended=True)]
    return sorted(seq for first, last in blocks + gaps for seq in range(first, last + 1))


def missing(content: SpoolContent) -> int:
    return sum(gap.last_seq - gap.first_seq + 1 for gap in gaps_of(content, None, ended=True))


def test_the_reserved_number_shows_events_lost_by_a_kill() -> None:
    content = read_spool(SPOOL)
    numbers = covered(content)
    assert numbers == list(range(1, len(numbers) + 1))
    assert 2 <= missing(content) <= 2 + 16
    assert len(numbers) >= RECORDED


def test_a_file_that_is_cut_anywhere_tells_of_every_event_once() -> None:
    instead = read_header(LOCK)
    for length in range(len(SPOOL)):
        content = read_spool(SPOOL[:length], instead)
        numbers = covered(content)
        assert numbers == list(range(1, len(numbers) + 1)), length
        if length >= 20:
            assert len(numbers) >= RECORDED, length
        else:
            assert missing(content) == 1, "how many are missing cannot be known, and a gap says so"


@pytest.mark.parametrize("bit", range(8))
def test_a_file_that_is_damaged_anywhere_tells_of_every_event_once(bit: int) -> None:
    instead = read_header(LOCK)
    for place in range(len(SPOOL)):
        damaged = bytearray(SPOOL)
        damaged[place] ^= 1 << bit
        content = read_spool(bytes(damaged), instead)
        numbers = covered(content)
        assert numbers == list(range(1, len(numbers) + 1)), place
        assert len(numbers) >= (RECORDED if place >= 20 else 9), place


@given(junk=st.binary(max_size=200), at=st.integers(0, 10_000))
def test_bytes_that_do_not_belong_there_cost_no_event_beside_them(junk: bytes, at: int) -> None:
    at = min(max(at % (len(SPOOL) + 1), 20), len(SPOOL))
    content = read_spool(SPOOL[:at] + junk + SPOOL[at:], read_header(LOCK))
    numbers = covered(content)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(content.blocks) >= 2


@given(st.binary(max_size=400))
def test_bytes_that_are_no_spool_at_all_have_no_events(data: bytes) -> None:
    content = read_spool(data, read_header(LOCK))
    assert content.blocks == []


def test_zeros_behind_the_mark_of_a_block_are_damage() -> None:
    """As after a power loss; the checksum of nothing is zero, too."""
    at = SPOOL.rindex(b"SGAB") + 4
    content = read_spool(SPOOL[:at] + bytes(len(SPOOL) - at))
    numbers = covered(content)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= RECORDED


def test_a_piece_that_is_in_a_file_twice_brings_no_event_twice() -> None:
    content = read_spool(SPOOL + SPOOL[SPOOL.index(b"SGAB") :])
    assert content.blocks == read_spool(SPOOL).blocks


def test_a_damaged_block_is_not_searched_for_what_its_client_has_put_into_it() -> None:
    forged = packed_block("events", 1, 1, 0, 0.0, [], [], [], b"", b"", b"", [("gap", 1, 1, 0, 1, "no reason", None)])
    damaged = b"SGAB" + Struct("<II").pack(len(forged), 0) + forged
    at = SPOOL.index(b"SGAB", SPOOL.index(b"SGAB") + 4)
    content = read_spool(SPOOL[:at] + damaged + SPOOL[at:])
    assert content.blocks == read_spool(SPOOL).blocks
    assert [damage.length for damage in content.damages] == [len(damaged)]
