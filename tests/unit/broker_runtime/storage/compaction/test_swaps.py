"""A swap of segments that is interrupted: by a cut, a deletion, retention, a crash, a failing disk."""

import errno
import random
from pathlib import Path

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import FIRST_DIRTY, read_offsets
from broker_runtime.storage.log.expiry import apply_retention
from broker_runtime.storage.log.swap import SWAP_LOG, Swap
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.logs.cleaning import append_keyed, clean, dirt_of, records_of
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse

CONFIG = TopicConfig(cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=80, file_delete_delay_ms=0)
FOLDER = LOG_DIR / "orders-0"


def _dirty(config: TopicConfig = CONFIG, batches: int = 20) -> LogHouse:
    house = LogHouse(config)
    for number in range(batches):
        append_keyed(house, (b"a", b"%d" % number), (b"b%d" % (number % 3), b"x"))
    house.log.files.roll()
    house.log.flush()
    append_keyed(house, (b"a", b"last"))
    # From now on several of its segments make one.
    house.log.update_config(TopicConfig(cleanup_policy=config.cleanup_policy, segment_bytes=2000, retention_ms=10_000))
    return house


def _values(house: LogHouse) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records_of(house.log)}


def _names(house: LogHouse, *suffixes: str) -> list[str]:
    return [name for name in house.fs.listdir(FOLDER) if name.endswith(suffixes)]


@pytest.mark.parametrize("seed", range(6))
def test_a_cut_withdraws_a_swap_that_has_begun(seed: int) -> None:
    house = _dirty()
    cut: list[int] = []

    def cut_while_swapping(_: int) -> None:
        if house.log.files.swaps.pending is not None and not cut:
            cut.append(2)
            house.follower.truncate_to(2)

    assert clean(house, before_work=cut_while_swapping) is None
    assert cut
    assert _names(house, ".swap", ".cleaned") == []
    for after in (house.kill, lambda: house.lose_power(seed)):
        after()
        assert house.log.log_end_offset == 2
        assert _values(house) == {b"a": b"0", b"b0": b"x"}


@pytest.mark.parametrize("work", range(6))
def test_a_cut_below_the_high_watermark_stops_a_cleaning_and_is_no_damage(work: int) -> None:
    """After an unclean election, the records that the cleaning reads disappear meanwhile."""
    house = _dirty()

    def cut(number: int) -> None:
        if number == work:
            house.follower.truncate_to(1)

    assert clean(house, before_work=cut) is None
    assert house.log.log_end_offset == 0
    house.kill()
    assert house.log.log_end_offset == 0


def test_a_swap_that_cannot_be_withdrawn_takes_the_log_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next start would complete it over the records that have replaced the old ones."""
    house = _dirty()

    def withdraw(_: Swap) -> None:
        raise OSError(errno.EIO, "input/output error")

    def stop(_: int) -> None:
        if house.log.files.swaps.pending is not None:
            house.log.update_config(TopicConfig())

    monkeypatch.setattr(Swap, "withdraw", withdraw)
    assert clean(house, before_work=stop) is None
    monkeypatch.undo()
    with pytest.raises(KafkaError, match="withdrawing a swap"):
        append_keyed(house, (b"a", b"more"))
    house.kill()
    assert _values(house) == {b"a": b"last", b"b0": b"x", b"b1": b"x", b"b2": b"x"}
    house.follower.truncate_to(1)
    append_keyed(house, (b"a", b"other"))
    house.kill()
    assert _values(house) == {b"a": b"other"}


@pytest.mark.parametrize("nth", [1, 2])
def test_a_folder_that_cannot_be_synced_takes_the_log_offline(nth: int) -> None:
    """Later syncs may succeed without restoring the lost names: only a start can find out which exist."""
    house = _dirty()
    syncs = [0]

    def fail_sync(_: int) -> None:
        syncs[0] += syncs[0] > 0 or house.log.files.swaps.pending is not None
        house.fs.failing_fsync = syncs[0] == nth

    assert clean(house, before_work=fail_sync) is None
    house.fs.mend()
    with pytest.raises(KafkaError, match="an fsync failed"):
        append_keyed(house, (b"a", b"more"))
    fs = house.fs
    for seed in range(4):
        house.fs = fs.copy()
        house.lose_power(seed)
        # The last record was never synced.
        assert _values(house) | {b"a": b"19"} == {b"a": b"19", b"b0": b"x", b"b1": b"x", b"b2": b"x"}


def test_retention_whose_folder_cannot_be_synced_takes_the_log_offline() -> None:
    house = _dirty(TopicConfig(cleanup_policy=("delete",), segment_bytes=400))
    house.log.delete_records(20)
    house.fs.failing_fsync = True
    apply_retention(house.log, house.clock.wall_ms())
    house.fs.mend()
    with pytest.raises(KafkaError, match="an fsync failed"):
        append_keyed(house, (b"a", b"more"))


def test_records_that_replace_cleaned_ones_do_not_count_as_cleaned() -> None:
    house = _dirty()
    clean(house)
    house.restart()
    assert read_offsets(house.fs, LOG_DIR / FIRST_DIRTY) == {("orders", 0): 40}
    house.follower.truncate_to(4)
    assert house.log.first_dirty_offset == house.log.log_end_offset
    assert read_offsets(house.fs, LOG_DIR / FIRST_DIRTY).get(("orders", 0), 0) == house.log.log_end_offset


@pytest.mark.parametrize("work", range(12))
def test_a_log_that_is_deleted_stops_its_cleaning(work: int) -> None:
    house = _dirty()
    gone: list[int] = []

    def delete(number: int) -> None:
        if number == work:
            gone.append(number)
            house.logs.delete("orders", 0)
            house.log.end()

    old = house.log
    assert (clean(house, before_work=delete) is None) == bool(gone)
    if gone:
        assert old.failure is not None
        house.log = house.logs.create("orders", 0, TOPIC_ID, CONFIG)
        house.log.sole_replica = True
        append_keyed(house, (b"a", b"new"))
        house.clock.advance(1)
        at_once(house.logs.tick())
        house.kill()
        assert _values(house) == {b"a": b"new"}


@pytest.mark.parametrize("work", range(12))
def test_segments_that_expire_stop_a_cleaning_or_wait_for_its_swap(work: int) -> None:
    house = _dirty(TopicConfig(cleanup_policy=("compact", "delete"), segment_bytes=400, retention_ms=10_000))

    def expire(number: int) -> None:
        if number == work:
            house.log.delete_records(20)
            apply_retention(house.log, house.clock.wall_ms())

    clean(house, before_work=expire)
    begin = house.log.log_start_offset
    apply_retention(house.log, house.clock.wall_ms())
    assert _values(house)[b"a"] == b"last"
    house.kill()
    assert house.log.log_start_offset == begin
    assert _values(house) == {b"a": b"last", b"b0": b"x", b"b1": b"x", b"b2": b"x"}


def test_a_policy_that_is_not_compact_any_more_stops_a_cleaning_and_gaps_stay_legal() -> None:
    house = _dirty()
    clean(house)
    append_keyed(house, (b"a", b"then"))
    house.log.files.roll()
    house.log.flush()
    house.config = TopicConfig()
    assert clean(house, before_work=lambda _: house.log.update_config(TopicConfig())) is None
    append_keyed(house, (b"a", b"more"))
    for after in (house.kill, house.restart):
        after()
        assert _values(house)[b"a"] == b"more"


def test_a_disk_that_is_full_all_at_once_leaves_the_log_as_it_was() -> None:
    for change in range(1, 40):
        house = _dirty()
        before = records_of(house.log)
        left = [change]

        def fill(house: LogHouse = house, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                house.fs.capacity_bytes = house.fs.used_bytes()

        house.fs.before_change = fill
        try:
            is_clean = clean(house) is not None
        except (OSError, KafkaError):
            is_clean = False
        house.fs.capacity_bytes, house.fs.before_change = None, lambda: None
        assert _values(house) == {record.key: record.value for record in before}
        assert _names(house, ".cleaned", ".swap") == []
        if is_clean:
            break
    assert is_clean
    assert change > 3


def _crashed_with_swap(house: LogHouse) -> None:
    """Crash the house when the swap is durable, and no other part of it was done."""
    copies: list[MemoryFileSystem] = []

    def copy(_: int) -> None:
        if house.log.files.swaps.pending is not None and not copies:
            house.fs.fsync_dir(FOLDER)
            copies.append(house.fs.copy())

    clean(house, before_work=copy)
    (house.fs,) = copies


def test_a_start_completes_a_swap() -> None:
    house = _dirty()
    segments = len(house.log.segments)
    _crashed_with_swap(house)
    house.lose_power(1)
    assert _names(house, ".swap", ".cleaned") == []
    assert len(house.log.segments) < segments
    assert _values(house)[b"a"] in (b"19", b"last")
    assert 0 not in [record.offset for record in records_of(house.log)]


def test_a_damaged_swap_is_dropped_while_the_old_segments_are_there_and_is_damage_afterwards() -> None:
    for old_is_there in (True, False):
        house = _dirty()
        before = records_of(house.log)
        _crashed_with_swap(house)
        (name,) = _names(house, SWAP_LOG)
        house.fs.flip(FOLDER / name, 40, 1)
        if not old_is_there:
            house.fs.lose(FOLDER / name.removesuffix(".swap"))
        house.fs = house.fs.process_killed()
        if old_is_there:
            house.kill()
            assert records_of(house.log) == before
        else:
            logs = house.manager()
            logs.open(lambda _topic: CONFIG)
            assert ("orders", 0) in logs.damaged


@pytest.mark.parametrize("keeps_names", [False, True])
def test_a_damaged_swap_is_kept_after_any_crash_unless_the_old_segments_exist(
    keeps_names: bool,
) -> None:
    kept, dropped = set[int](), set[int]()
    for moment in range(1, 60):
        house, copies, left = _dirty(), list[MemoryFileSystem](), [moment]
        at_once(house.logs.upkeep.tick())
        before = _values(house)

        def stop(house: LogHouse = house, copies: list[MemoryFileSystem] = copies, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                copies.append(house.fs.copy())

        house.fs.before_change = stop
        clean(house)
        if not copies:
            break
        fs = copies[0].power_loss(random.Random(moment), keeps_names=True) if keeps_names else copies[0]
        fs = fs.process_killed()
        swaps = [name for name in fs.listdir(FOLDER) if name.endswith(SWAP_LOG)]
        for name in swaps:
            fs.flip(FOLDER / name, 40, 1)
        if not swaps:
            continue
        names = {name for name in fs.listdir(FOLDER) if ".log" in name}
        house.fs = fs
        logs = house.manager()
        logs.open(lambda _topic: CONFIG)
        if ("orders", 0) in logs.damaged:
            assert {name for name in fs.listdir(FOLDER) if ".log" in name} == names
            kept.add(moment)
        else:
            log = logs.get("orders", 0)
            assert log is not None
            assert log.log_end_offset >= 40
            assert {record.key: record.value for record in records_of(log)} | {b"a": b""} == before | {b"a": b""}
            assert not [name for name in fs.listdir(FOLDER) if name.endswith(SWAP_LOG)]
            dropped.add(moment)
    assert dropped
    assert kept


def test_segments_that_a_power_loss_has_brought_back_into_the_cleaned_one_are_dropped() -> None:
    house = _dirty()
    old = {name: house.fs.open(FOLDER / name).pread(1 << 20, 0) for name in _names(house, ".log")}
    clean(house)
    expected = records_of(house.log)
    for name in sorted(old.keys() - set(_names(house, ".log"))):
        file = house.fs.open(Path(FOLDER / name), create=True)
        file.write_at([old[name]], 0)
    house.kill()
    assert records_of(house.log) == expected
    house.fs = house.fs.power_loss(random.Random(1))


def test_nothing_is_dirty_right_after_a_cleaning() -> None:
    house = _dirty()
    clean(house)
    assert dirt_of(house).dirty_bytes == 0
