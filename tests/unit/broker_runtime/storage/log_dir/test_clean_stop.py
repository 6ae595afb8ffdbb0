"""A clean stop syncs many logs at once, and none twice."""

from random import Random
from uuid import UUID

from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.logs import LOG_DIR, LogHouse, values_of

LOGS = 20


class StoppedHouse(LogHouse):
    """A house with `LOGS` more partitions without records."""

    def __init__(self) -> None:
        self.slow_disk = ManualDisk()
        self.slow_disk.slow = False
        super().__init__(disk=self.slow_disk)
        for number in range(LOGS):
            self.logs.create("idle", number, UUID(int=9), self.config)
        self.slow_disk.slow = True


def test_all_logs_are_synced_at_once_in_threads() -> None:
    house = StoppedHouse()
    house.append(b"v")
    house.logs.begin_close()
    assert house.slow_disk.busy == LOGS + 1
    before = house.fs.fsyncs
    house.slow_disk.finish_all()
    assert house.fs.fsyncs - before <= 4 * (LOGS + 1), "segment, partition.metadata, snapshot, folder"
    before = house.fs.fsyncs
    house.logs.close()
    assert house.fs.fsyncs - before <= 10, "the small files that all logs share"
    house.fs = house.fs.power_loss(Random(1))
    assert house._open().clean
    assert values_of(house.log) == [b"v"]
    assert (len(house.logs.logs()), house.logs.damaged) == (LOGS + 1, {})


def test_a_log_that_has_all_on_the_disk_is_not_synced_again() -> None:
    house = StoppedHouse()
    house.slow_disk.slow = False
    house.restart()
    house.slow_disk.slow = True
    house.logs.begin_close()
    assert house.slow_disk.busy == 0
    house.logs.close()


def test_what_cannot_be_synced_in_a_thread_leaves_no_marker_of_a_clean_stop() -> None:
    house = StoppedHouse()
    house.append(b"v")
    house.logs.begin_close()
    house.fs.failing_fsync = True
    house.slow_disk.finish_all()
    house.fs.mend()
    house.logs.close()
    assert not house.fs.exists(LOG_DIR / ".kafka_cleanshutdown")


def test_a_stop_without_its_beginning_syncs_everything_itself() -> None:
    house = StoppedHouse()
    house.append(b"v")
    house.logs.close()
    house.fs = house.fs.power_loss(Random(1))
    assert house._open().clean
    assert values_of(house.log) == [b"v"]
