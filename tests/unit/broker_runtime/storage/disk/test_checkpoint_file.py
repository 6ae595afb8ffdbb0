"""One small file, written at once and in threads: an older content never replaces a newer one."""

from collections.abc import Mapping

import pytest

from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.checkpoint_file import CheckpointFile

KEY = ("orders", 0)


class Disk:
    def __init__(self) -> None:
        self.content: Mapping[Partition, int] = {}
        self.fails = False
        self.file: CheckpointFile[int] = CheckpointFile("points", lambda: self.content, self._write)

    def _write(self, content: Mapping[Partition, int], _sync: bool) -> None:
        if self.fails:
            raise OSError("no space left")
        self.content = content


def test_unchanged_content_is_not_written_again() -> None:
    disk = Disk()
    disk.file.write({KEY: 1})
    assert disk.file.begin({KEY: 1}) is None
    assert disk.file.begin({KEY: 2}) is not None


def test_a_write_that_was_begun_before_another_does_not_come_after_it() -> None:
    disk = Disk()
    older = disk.file.begin({KEY: 5})
    assert older is not None
    disk.file.write({KEY: 3})
    older.run()
    older.is_there()
    assert disk.content == disk.file.on_disk == {KEY: 3}
    assert disk.file.is_settled


def test_a_pending_write_may_already_be_on_disk() -> None:
    disk = Disk()
    disk.file.write({KEY: 1})
    pending = disk.file.begin({KEY: 5})
    assert pending is not None
    assert sorted(disk.file.may_say(KEY)) == [1, 5]
    assert disk.file.on_disk == {KEY: 1}
    pending.run()
    pending.is_there()
    assert disk.file.may_say(KEY) == [5]


def test_a_write_that_failed_is_made_again_even_when_nothing_has_changed() -> None:
    disk = Disk()
    disk.file.write({KEY: 1})
    disk.fails = True
    with pytest.raises(OSError, match="no space"):
        disk.file.write({KEY: 2})
    assert sorted(disk.file.may_say(KEY)) == [1, 2]
    disk.fails = False
    disk.file.write({KEY: 1})
    assert (disk.content, disk.file.may_say(KEY)) == ({KEY: 1}, [1])
