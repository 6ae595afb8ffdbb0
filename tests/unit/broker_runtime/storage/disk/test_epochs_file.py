"""The file of leader epochs: a file with its name is durable, whatever is written or synced meanwhile."""

from broker_runtime.config import TopicConfig
from broker_runtime.storage.disk.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.disk.filesystem import read_file
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.cleaning import append_keyed, clean
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse

FOLDER = LOG_DIR / "orders-0"


def _entries(house: LogHouse) -> list[tuple[int, int]]:
    if not house.fs.exists(FOLDER / EPOCHS_FILE):
        return []
    return LeaderEpochs.decode(read_file(house.fs, FOLDER / EPOCHS_FILE)).entries


def _drafts(house: LogHouse) -> list[str]:
    return [name for name in house.fs.listdir(FOLDER) if name.startswith(EPOCHS_FILE) and name.endswith(".tmp")]


def test_a_power_loss_after_a_new_epoch_takes_nothing_of_those_before() -> None:
    """Batches no longer show where epochs began once they were cleaned."""
    for seed in range(60):
        house = LogHouse(TopicConfig(cleanup_policy=("compact",)))
        for number in range(6):
            append_keyed(house, (b"k", b"%d" % number), leader_epoch=number // 3)
        house.log.files.roll()
        house.log.flush()
        assert clean(house) is not None
        append_keyed(house, (b"k", b"new"), leader_epoch=2)
        house.lose_power(seed, keeps_names=True)
        assert house.log.end_offset_for_epoch(0) == (0, 3)


def test_an_epoch_is_in_the_file_when_its_first_batch_is_synced() -> None:
    house = LogHouse()
    house.append(b"a", leader_epoch=3)
    house.append(b"b", leader_epoch=4)
    assert (_entries(house), len(_drafts(house))) == ([], 1)
    house.log.flush()
    assert (_entries(house), _drafts(house)) == ([(3, 0), (4, 1)], [])
    assert house.log.files.syncs.has_all


def test_a_killed_process_leaves_the_epochs_in_the_batches() -> None:
    house = LogHouse()
    house.append(b"a", leader_epoch=3)
    house.kill()
    assert house.log.latest_epoch == 3
    assert _drafts(house) == []


def test_a_cut_during_a_sync_has_the_last_word() -> None:
    house = LogHouse(disk=ManualDisk())
    disk = house.disk
    assert isinstance(disk, ManualDisk)
    house.append(b"a", leader_epoch=3)
    house.append(b"b", leader_epoch=4)
    house.log.files.syncs.begin()
    house.follower.truncate_to(1)
    assert _entries(house) == [(3, 0)]
    disk.finish_all()
    assert (_entries(house), _drafts(house)) == ([(3, 0)], [])


def test_a_sync_stores_the_epochs_that_it_covers_when_another_begins_meanwhile() -> None:
    house = LogHouse(disk=ManualDisk())
    disk = house.disk
    assert isinstance(disk, ManualDisk)
    house.append(b"a", leader_epoch=3)
    house.log.files.syncs.begin()
    house.append(b"b", leader_epoch=4)
    disk.finish_all()
    assert (_entries(house), house.log.recovery_point) == ([(3, 0)], 1)
    house.log.flush()
    assert (_entries(house), _drafts(house)) == ([(3, 0), (4, 1)], [])


def test_a_sync_of_a_deleted_log_writes_nothing_to_its_namesake() -> None:
    house = LogHouse(disk=ManualDisk())
    disk = house.disk
    assert isinstance(disk, ManualDisk)
    house.append(b"a", leader_epoch=9)
    house.log.files.syncs.begin()
    house.logs.delete("orders", 0)
    house.log = house.logs.create("orders", 0, TOPIC_ID, house.config)
    house.append(b"b", leader_epoch=1)
    disk.finish_all()
    assert 9 not in [epoch for epoch, _ in _entries(house)]
    house.log.flush()
    assert _entries(house) == [(1, 0)]
