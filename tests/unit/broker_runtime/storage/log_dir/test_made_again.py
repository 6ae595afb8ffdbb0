"""A topic that is created again under its old name, or a replica that returns: nothing of the old one counts."""

import random
from uuid import UUID

import pytest

from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import LOG_STARTS, RECOVERY_POINTS, read_offsets, write_offsets
from broker_runtime.storage.disk.filesystem import read_file, replace_file
from broker_runtime.storage.disk.ledger import read_ledger
from broker_runtime.storage.disk.run_record import FILE_NAME
from broker_runtime.storage.log.log import Log
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse, values_of

AGAIN = UUID(int=8)
TEN = [b"again %d" % number for number in range(10)]


def _with_old_offsets() -> LogHouse:
    """A hundred records, half of them deleted, and all of that in the checkpoints."""
    house = LogHouse()
    for number in range(100):
        house.append(b"%d" % number)
    house.log.delete_records(50)
    house.log.flush()
    house.clock.advance(61)
    at_once(house.logs.tick())
    return house


def _make_again(house: LogHouse, topic_id: UUID = AGAIN) -> None:
    house.logs.delete("orders", 0)
    house.log = house.logs.create("orders", 0, topic_id, house.config)
    house.log.sole_replica = True
    for value in TEN:
        house.append(value)


def _found(fs: MemoryFileSystem, house: LogHouse) -> Log:
    house.fs = fs
    house.logs = house.manager()
    house.logs.open(lambda _topic: house.config)
    log = house.logs.get("orders", 0)
    assert log is not None
    log.sole_replica = True
    return log


@pytest.mark.parametrize("topic_id", [AGAIN, TOPIC_ID], ids=["made again", "moved away and back"])
def test_records_that_were_acknowledged_are_there_after_a_kill(topic_id: UUID) -> None:
    house = _with_old_offsets()
    _make_again(house, topic_id)
    log = _found(house.fs.process_killed(), house)
    assert (log.log_start_offset, values_of(log)) == (0, TEN)
    assert house.logs.damaged == {}


def test_synced_records_survive_a_power_loss_and_others_are_checked() -> None:
    for seed in range(20):
        house = _with_old_offsets()
        _make_again(house)
        house.log.flush()
        house.append(b"not synced")
        log = _found(house.fs.power_loss(random.Random(seed)), house)
        assert values_of(log)[:10] == TEN
        # If a torn batch was cut off, all is synced; otherwise nothing vouches for it before the next sync.
        assert log.recovery_point in (0, log.log_end_offset)
        assert house.logs.damaged == {}


@pytest.mark.parametrize("power", [False, True])
def test_a_broker_starts_wherever_it_was_ended_between_two_lives_of_a_name(power: bool) -> None:
    house = _with_old_offsets()
    left: list[MemoryFileSystem] = []
    house.fs.before_change = lambda: left.append(house.fs.copy())
    _make_again(house)
    house.fs.before_change = lambda: None
    assert len(left) > 15
    for number, fs in enumerate(left):
        again = LogHouse()
        again.clock = house.clock
        again.fs = fs.power_loss(random.Random(number)) if power else fs.process_killed()
        again.logs = again.manager()
        again.logs.open(lambda _topic: house.config)
        assert again.logs.damaged == {}
        assert len(again.logs.strays) == 0
        log = again.logs.get("orders", 0)
        if log is not None and log.topic_id == AGAIN:
            log.sole_replica = True
            found = values_of(log)
            assert found == TEN[: len(found)]
        elif log is not None:
            log.sole_replica = True
            assert (log.log_start_offset, log.log_end_offset) == (50, 100)


def test_an_entry_goes_before_the_name_is_used_again() -> None:
    house = _with_old_offsets()
    house.logs.delete("orders", 0)
    house.logs.create("orders", 0, AGAIN, house.config)
    after = house.fs.power_loss(random.Random(1))
    assert read_offsets(after, LOG_DIR / RECOVERY_POINTS) == {}
    assert read_offsets(after, LOG_DIR / LOG_STARTS) == {}
    assert read_ledger(after, LOG_DIR) == {}


def _as_an_earlier_version_leaves_it(house: LogHouse) -> MemoryFileSystem:
    """The disk of an earlier version, which knows no ledger, and keeps entries of the previous topic."""
    fs = house.fs.process_killed()
    content = read_file(fs, LOG_DIR / FILE_NAME)
    replace_file(fs, LOG_DIR / FILE_NAME, content.replace(b',"ledger":true', b""))
    write_offsets(fs, LOG_DIR / LOG_STARTS, {("orders", 0): 50})
    write_offsets(fs, LOG_DIR / RECOVERY_POINTS, {("orders", 0): 100})
    return fs


@pytest.mark.parametrize("has_ledger", [False, True])
def test_entries_that_an_earlier_version_has_left_take_no_records(has_ledger: bool) -> None:
    house = _with_old_offsets()
    ledger = read_file(house.fs, LOG_DIR / ".sluicegate_partitions")
    _make_again(house)
    fs = _as_an_earlier_version_leaves_it(house)
    if has_ledger:
        replace_file(fs, LOG_DIR / ".sluicegate_partitions", ledger)
    else:
        fs.unlink(LOG_DIR / ".sluicegate_partitions")
    log = _found(fs, house)
    assert (log.log_start_offset, values_of(log)) == (0, TEN)


def test_a_folder_that_an_earlier_version_has_only_begun_is_no_reason_not_to_start() -> None:
    house = _with_old_offsets()
    house.logs.delete("orders", 0)
    fs = _as_an_earlier_version_leaves_it(house)
    fs.mkdir(LOG_DIR / "orders-0")
    house.fs = fs
    house.logs = house.manager()
    house.logs.open(lambda _topic: house.config)
    assert house.logs.holdings() == []
    assert house.logs.create("orders", 0, AGAIN, house.config).log_end_offset == 0


def test_files_of_a_partly_renamed_segment_are_deleted_too() -> None:
    house = LogHouse()
    for number in range(30):
        house.append(b"%d" % number)
        if number % 10 == 9:
            house.log.files.roll()
    failing = [True]

    def fail_once() -> None:
        if failing and any(name.endswith(".log.deleted") for name in house.fs.listdir(LOG_DIR / "orders-0")):
            failing.clear()
            raise OSError("input/output error")

    house.fs.before_change = fail_once
    with pytest.raises(OSError, match="input/output"):
        house.log.files.old.rename_away(2, 0, lambda: None)
    house.fs.before_change = lambda: None
    house.log.files.old.rename_away(2, 0, lambda: None)
    assert house.log.segments[0].base_offset == 20
    house.log.files.old.remove_renamed(1)
    assert not any(name.endswith(".deleted") for name in house.fs.listdir(LOG_DIR / "orders-0"))
