"""Apache Kafka's tool reads what a log stores of transactions: markers, .txnindex and .snapshot files."""

import subprocess
from pathlib import Path

import pytest

from broker_runtime.storage.disk.filesystem import read_file
from tests.support.logs.logs import LogHouse
from tests.support.logs.transactions import end, write
from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs

FIRST, SECOND, THIRD = 2**40, 7, 8


def _house() -> LogHouse:
    """A log with one open, one committed and two aborted transactions."""
    house = LogHouse()
    write(house.log, b"a", b"b", producer_id=FIRST, epoch=3)
    write(house.log, b"c", producer_id=SECOND)
    end(house.log, producer_id=FIRST, epoch=3, is_commit=False, coordinator_epoch=11)
    end(house.log, producer_id=SECOND, epoch=1, is_commit=True, coordinator_epoch=12, version=2)
    write(house.log, b"d", producer_id=THIRD)
    write(house.log, b"e", producer_id=SECOND, epoch=1)
    end(house.log, producer_id=THIRD, is_commit=False, coordinator_epoch=13)
    house.log.files.roll()
    return house


def _shown(tmp_path: Path, house: LogHouse, name: str, *options: str) -> list[str]:
    copied = tmp_path / name
    copied.write_bytes(read_file(house.fs, house.log.place.folder / name))
    tool = ["org.apache.kafka.tools.DumpLogSegments", *options, "--files", str(copied)]
    command = [java(), "-Xmx128m", "-cp", f"{kafka_libs()}/*", *tool]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.mark.full
def test_apache_kafkas_tool_reads_markers(tmp_path: Path) -> None:
    shown = _shown(tmp_path, _house(), "00000000000000000000.log", "--deep-iteration")
    markers = [line for line in shown if "endTxnMarker: " in line]
    assert [line.partition("endTxnMarker: ")[2].split()[0] for line in markers] == ["ABORT", "COMMIT", "ABORT"]
    assert [line.rpartition("coordinatorEpoch: ")[2] for line in markers] == ["11", "12", "13"]
    batches = [line for line in shown if line.startswith("baseOffset: ")]
    assert all("isvalid: true" in line and "isTransactional: true" in line for line in batches), shown
    assert ["isControl: true" in line for line in batches] == [False, False, True, True, False, False, True]


@pytest.mark.full
def test_apache_kafkas_tool_reads_aborted_transactions(tmp_path: Path) -> None:
    shown = _shown(tmp_path, _house(), "00000000000000000000.txnindex")
    entries = [line for line in shown if line.startswith("version: ")]
    assert entries == [
        f"version: 0 producerId: {FIRST} firstOffset: 0 lastOffset: 3 lastStableOffset: 2",
        f"version: 0 producerId: {THIRD} firstOffset: 5 lastOffset: 7 lastStableOffset: 6",
    ], shown


@pytest.mark.full
def test_apache_kafkas_tool_reads_the_states_of_producers(tmp_path: Path) -> None:
    shown = _shown(tmp_path, _house(), "00000000000000000008.snapshot")
    states = {int(line.split()[1]): line for line in shown if line.startswith("producerId: ")}
    assert "coordinatorEpoch: 11 currentTxnFirstOffset: OptionalLong.empty" in states[FIRST], shown
    assert "producerEpoch: 1 coordinatorEpoch: 12 currentTxnFirstOffset: OptionalLong[6]" in states[SECOND], shown
    assert "coordinatorEpoch: 13 currentTxnFirstOffset: OptionalLong.empty" in states[THIRD], shown
