"""The files that a simulation may damage: those that a start can know to be missing."""

from pathlib import Path
from uuid import UUID

import pytest

from broker_runtime.storage.disk.checkpoint import HIGH_WATERMARKS, RECOVERY_POINTS, write_offsets
from broker_runtime.storage.disk.ledger import FILE_NAME, Entry, write_ledger
from tests.simulation.cluster.faults.damage import is_vouched_for, would_be_missed
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem

ROOT = Path("/data")
ORDERS = ("orders", 0)
FOLDER = ROOT / "orders-0"


def _disk() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.mkdir(ROOT)
    return fs


def test_a_partition_is_missed_once_the_ledger_names_it() -> None:
    fs = _disk()
    assert not would_be_missed(fs, FOLDER)
    write_ledger(fs, ROOT, {ORDERS: Entry(UUID(int=1), 0)})
    assert would_be_missed(fs, FOLDER)
    assert not would_be_missed(fs, ROOT / "orders-1")
    fs.flip(ROOT / FILE_NAME, 0, 1)
    assert not would_be_missed(fs, FOLDER)


def test_a_folder_that_was_set_aside_is_nobodys_to_miss() -> None:
    assert would_be_missed(_disk(), ROOT / "orders-0.00000000000000000000000000000001-stray")


@pytest.mark.parametrize("checkpoint", [RECOVERY_POINTS, HIGH_WATERMARKS])
def test_a_segment_is_missed_where_an_offset_vouches_for_its_first_record(checkpoint: str) -> None:
    fs, segment = _disk(), FOLDER / "00000000000000000007.log"
    assert not is_vouched_for(fs, segment)
    for offset, is_missed in ((7, False), (8, True)):
        write_offsets(fs, ROOT / checkpoint, {ORDERS: offset})
        assert is_vouched_for(fs, segment) is is_missed
    fs.flip(ROOT / checkpoint, 0, 1)
    assert not is_vouched_for(fs, segment)
