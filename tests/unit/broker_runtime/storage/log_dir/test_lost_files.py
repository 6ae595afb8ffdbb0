"""Lost or unopenable files of logs: missing records are known, and everything else is served."""

import errno
from collections.abc import Callable
from uuid import UUID

import pytest

from broker_runtime.storage.disk.checkpoint import RECOVERY_POINTS
from broker_runtime.storage.disk.filesystem import FsyncFailedError
from broker_runtime.storage.recovery.recovery import is_damage
from kafka_bytes.batches import encode_batch
from tests.support.logs.damaged_node import CONFIG, EVERYTHING, FOLDER, Node, all_but, served
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, values_of


@pytest.mark.parametrize("end", [Node.stop, Node.kill])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_segment_that_is_lost_is_a_damaged_range(end: Callable[[Node], None], number: int) -> None:
    node = Node()
    node.sync()
    end(node)
    base, follows = node.last.segments[number].base_offset, node.last.segments[number + 1].base_offset
    node.fs.lose(node.segment(number))
    for _ in range(3):
        node.start()
        assert node.unreadable == [(base, follows - 1)]
        assert (node.log.log_start_offset, served(node.log)) == (0, all_but(*range(base, follows)))
        assert "is lost" in node.log.damage[0].reason
        end(node)


def test_two_segments_that_are_lost_are_one_range() -> None:
    node = Node()
    node.stop()
    base, follows = node.last.segments[1].base_offset, node.last.segments[3].base_offset
    for _ in range(2):
        node.fs.lose(node.segment(1))
    node.start()
    assert (node.unreadable, served(node.log)) == ([(base, follows - 1)], all_but(*range(base, follows)))


@pytest.mark.parametrize("end", [Node.stop, Node.kill])
def test_the_newest_segment_is_missed_as_a_whole(end: Callable[[Node], None]) -> None:
    node = Node()
    node.sync()
    end(node)
    node.fs.unlink(node.segment(-1))
    node.start()
    assert node.logs.get("orders", 0) is None
    assert "had records up to 50" in node.reason


def test_a_segment_that_cannot_be_opened_takes_nothing_else_with_it() -> None:
    node = Node()
    node.stop()
    base, follows = node.last.segments[1].base_offset, node.last.segments[2].base_offset
    node.fs.unreadable.add(node.segment(1))
    node.start()
    assert (node.unreadable, served(node.log)) == ([(base, follows - 1)], all_but(*range(base, follows)))
    node.stop()
    node.fs.unreadable.clear()
    node.start()
    assert (node.unreadable, values_of(node.log)) == ([], EVERYTHING)


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint", "newest segment"])
def test_another_file_that_cannot_be_opened_takes_its_own_partition_at_most(name: str) -> None:
    node = Node()
    node.logs.create("others", 0, UUID(int=3), CONFIG).append(memoryview(encode_batch([(b"k", b"v")], 1)))
    node.stop()
    node.fs.unreadable.add(node.segment(-1) if name == "newest segment" else FOLDER / name)
    node.start()
    others, log = node.logs.get("others", 0), node.logs.get("orders", 0)
    assert others is not None
    assert others.log_end_offset == 1
    assert ("orders", 0) in node.logs.damaged if log is None else log.log_end_offset == 50
    node.stop()
    node.fs.unreadable.clear()
    node.start()
    assert values_of(node.log) == EVERYTHING


def test_a_shortage_of_descriptors_is_no_damage() -> None:
    node = Node()
    node.stop()
    node.fs.no_descriptors = True
    with pytest.raises(OSError, match="too many open files"):
        node.start()


def test_accepting_the_loss_of_the_beginning_makes_the_data_incomplete() -> None:
    node = _without_its_first_segment(0)
    node.fs.open(FOLDER / "accept-loss", create=True)
    node.start()
    assert values_of(node.log) == EVERYTHING[node.log.log_start_offset :] != EVERYTHING
    assert node.logs.run_record.epoch == -1


@pytest.mark.parametrize("end", [Node.stop, Node.kill, Node.lose_power])
def test_a_folder_that_is_lost_is_missed_until_it_is_back(end: Callable[[Node], None]) -> None:
    node = Node()
    node.sync()
    end(node)
    node.fs.rename(FOLDER, LOG_DIR / "elsewhere")
    node.fs.fsync_dir(LOG_DIR)
    for _ in range(2):
        node.start()
        assert node.reason == f"the folder {FOLDER} is lost"
        assert node.logs.run_record.epoch == -1
        node.stop()
    node.fs.rename(LOG_DIR / "elsewhere", FOLDER)
    node.start()
    assert values_of(node.log) == EVERYTHING


def test_a_folder_that_is_lost_is_made_again_to_follow_or_when_a_person_accepts_it() -> None:
    for accepted in (False, True):
        node = Node()
        node.stop()
        node.fs.rename(FOLDER, LOG_DIR / "elsewhere")
        if accepted:
            node.fs.mkdir(FOLDER)
            node.fs.open(FOLDER / "accept-loss", create=True)
            node.start()
        else:
            node.start()
            node.logs.cut_damaged("orders", 0, TOPIC_ID, CONFIG)
        assert (node.log.log_end_offset, node.log.topic_id) == (0, TOPIC_ID)
        node.kill()
        node.start()
        assert node.logs.damaged == {}


@pytest.mark.parametrize("end", [Node.stop, Node.kill])
def test_the_first_segment_is_missed_unless_it_was_taken_out_of_the_log(end: Callable[[Node], None]) -> None:
    node = Node()
    node.sync()
    end(node)
    node.fs.unlink(node.segment(0))
    node.start()
    assert node.unreadable == [(0, node.log.segments[1].base_offset - 1)]
    node = Node()
    node.sync()
    node.log.files.old.rename_away(2, node.clock.wall_ms(), lambda: None)
    for _ in range(3):
        end(node)
        node.start()
        assert (node.log.log_end_offset, node.logs.damaged) == (50, {})


@pytest.mark.parametrize("end", [Node.stop, Node.kill])
def test_the_first_segment_is_missed_also_where_others_have_just_been_taken_out(end: Callable[[Node], None]) -> None:
    """The disk shows only that those segments are renamed: the last of them ends where the log begins."""
    node = Node()
    node.sync()
    begin = node.log.segments[2].base_offset
    node.log.files.old.rename_away(2, node.clock.wall_ms(), lambda: None)
    node.kill()
    if end is Node.stop:
        # The marker without the other files of a clean stop: the ledger may be old.
        node.logs.run_record.stopped_cleanly()
    node.fs.unlink(node.segment(0))
    node.start()
    assert node.unreadable == [(begin, node.log.segments[1].base_offset - 1)]


def test_a_renamed_segment_that_cannot_be_read_is_no_reason_to_miss_another() -> None:
    node = Node()
    node.sync()
    node.log.files.old.rename_away(2, node.clock.wall_ms(), lambda: None)
    node.kill()
    renamed = sorted(name for name in node.fs.listdir(FOLDER) if name.endswith(".log.deleted"))
    node.fs.flip(FOLDER / renamed[-1], 16, 0xFF)
    node.start()
    assert (node.log.log_end_offset, node.logs.damaged) == (50, {})


def _without_its_first_segment(begin: int) -> Node:
    """A log without its first segment, after its older segments were removed up to the one at index `begin`."""
    node = Node()
    if begin:
        node.log.delete_records(node.log.segments[begin].base_offset)
        node.log.files.old.rename_away(begin, node.clock.wall_ms(), lambda: None)
    node.stop()
    node.start()
    node.stop()
    for name in node.fs.listdir(FOLDER):
        if name.endswith(".deleted"):
            node.fs.unlink(FOLDER / name)
    node.fs.lose(node.segment(0))
    return node


@pytest.mark.parametrize("begin", [0, 2])
def test_a_log_without_its_first_segment_begins_where_it_began(begin: int) -> None:
    """Otherwise the log could later lead with a higher start, and the others would delete their records before that."""
    node = _without_its_first_segment(begin)
    node.start()
    ((first, last),) = node.unreadable
    assert first == node.log.log_start_offset == node.log.segments[0].base_offset
    assert served(node.log) == {offset: EVERYTHING[offset] for offset in range(last + 1, 50)}


def test_a_power_loss_that_takes_the_first_segment_takes_the_log() -> None:
    node = Node()
    node.fs.fsync_dir(LOG_DIR)
    node.fs.fsync_dir(FOLDER)
    node.logs.close()
    node.start()
    node.lose_power()
    for name in (RECOVERY_POINTS, "replication-offset-checkpoint"):
        node.fs.unlink(LOG_DIR / name)
    node.fs.unlink(node.segment(0))
    node.start()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (0, 0)
    assert node.logs.run_record.epoch == -1


@pytest.mark.parametrize(
    ("error", "concerns_the_file"),
    [
        (OSError(errno.EIO, "input/output error"), True),
        (OSError(errno.EISDIR, "is a directory"), True),
        (OSError(errno.EMFILE, "too many open files"), False),
        (OSError(errno.ENOSPC, "no space left on device"), False),
        (FsyncFailedError(errno.EIO, "input/output error"), False),
    ],
)
def test_only_an_error_of_one_file_is_damage(error: OSError, concerns_the_file: bool) -> None:
    assert is_damage(error) == concerns_the_file


def test_a_start_whose_fsync_fails_ends_and_reads_nothing_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may have dropped the pages: a second fsync would succeed, and nothing would be on the disk."""
    node = Node()
    node.kill()
    newest = max(path for path in node.fs.listdir(FOLDER) if path.endswith(".log"))
    file = node.fs.open(FOLDER / newest)
    file.truncate(file.size() - 1)
    failures = [FsyncFailedError(errno.EIO, "input/output error")]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    monkeypatch.setattr(node.fs, "check_fsync", fail_once)
    with pytest.raises(FsyncFailedError):
        node.start()
