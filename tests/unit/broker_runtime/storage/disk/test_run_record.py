"""The broker epoch for which a folder's data is complete, after every possible end of the last run."""

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import CLEAN_SHUTDOWN
from broker_runtime.storage.disk.filesystem import read_file, replace_file
from broker_runtime.storage.disk.run_record import FILE_NAME, UNKNOWN_BOOT
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR, TOPIC_ID

OTHER_ID = UUID(int=8)
SEGMENT = LOG_DIR / "orders-0" / f"{0:020}.log"


class Node:
    """A folder with one log, its runs, and the machine's boots."""

    def __init__(self, boot_id: str = "boot-1") -> None:
        self.fs = MemoryFileSystem()
        self.clock = ManualClock()
        self.boot_id = boot_id
        self.start()

    def start(self) -> int:
        """Start a run; return the epoch that it vouches for."""
        self.logs = LogManager(LOG_DIR, fs=self.fs, clock=self.clock, boot_id=self.boot_id)
        self.logs.open(lambda _topic: TopicConfig())
        self.log = self.logs.create("orders", 0, TOPIC_ID, TopicConfig())
        self.log.sole_replica = True
        return self.epoch

    @property
    def epoch(self) -> int:
        return self.logs.run_record.epoch

    def serve(self, epoch: int) -> None:
        self.logs.run_record.registered(epoch)
        self.log.append(memoryview(encode_batch([(b"k", b"v")], 1)))

    def stop(self) -> None:
        self.logs.close()
        self.fs = self.fs.process_killed()

    def kill(self) -> None:
        self.fs = self.fs.process_killed()

    def lose_power(self) -> None:
        self.fs = self.fs.power_loss(Random(3))
        self.boot_id = f"{self.boot_id}+"


def reboot(node: Node) -> None:
    """Reboot the machine, with all data written before."""
    node.boot_id = f"{node.boot_id}+"


def test_a_new_folder_vouches_for_nothing() -> None:
    assert Node().epoch == -1


@pytest.mark.parametrize(
    ("ends", "epoch"),
    [
        ((Node.stop,), 7),
        ((Node.kill,), 7),
        ((Node.stop, reboot), 7),
        ((Node.stop, Node.lose_power), 7),
        ((Node.kill, reboot), -1),
        ((Node.lose_power,), -1),
    ],
)
def test_a_clean_stop_vouches_always_and_a_kill_within_one_boot(
    ends: tuple[Callable[[Node], None], ...], epoch: int
) -> None:
    node = Node()
    node.serve(7)
    for end in ends:
        end(node)
    assert node.start() == epoch


def test_kafkas_marker_names_the_epoch() -> None:
    node = Node()
    node.serve(7)
    node.stop()
    assert read_file(node.fs, LOG_DIR / CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":7}'


def test_only_a_clean_stop_counts_if_boots_cannot_be_distinguished() -> None:
    node = Node(UNKNOWN_BOOT)
    node.serve(7)
    node.kill()
    assert node.start() == -1
    node.serve(8)
    node.stop()
    assert node.start() == 8


@pytest.mark.parametrize("between", [Node.stop, Node.kill])
def test_a_run_that_never_registers_passes_the_word_on(between: Callable[[Node], None]) -> None:
    node = Node()
    node.serve(7)
    node.stop()
    reboot(node)
    node.start()
    between(node)
    assert node.start() == 7


def test_a_run_that_never_registers_after_a_power_loss_has_no_word_to_pass_on() -> None:
    node = Node()
    node.serve(7)
    node.lose_power()
    node.start()
    node.stop()
    assert node.start() == -1


def test_a_disk_that_was_in_another_machine_meanwhile_vouches_for_nothing_at_the_first_one() -> None:
    node = Node("here")
    node.serve(7)
    node.kill()
    node.boot_id = "there"
    assert node.start() == -1
    node.fs = node.fs.power_loss(Random(3))
    node.boot_id = "here"
    assert node.start() == -1


def test_a_log_that_failed_ends_the_word_of_its_run_and_only_of_that() -> None:
    node = Node()
    node.serve(7)
    node.fs.failing_fsync = True
    with pytest.raises(KafkaError):
        node.log.flush()
    assert node.epoch == -1
    node.fs.failing_fsync = False
    node.logs.run_record.registered(8)
    assert node.epoch == -1, "the log still takes nothing"
    node.kill()
    assert node.start() == -1
    node.serve(9)
    node.kill()
    assert node.start() == 9


def test_a_log_that_cannot_be_closed_leaves_no_word_behind() -> None:
    node = Node()
    node.serve(7)
    node.fs.failing_fsync = True
    node.logs.close()
    node.kill()
    assert node.start() == -1


def test_a_log_that_is_shorter_than_it_was_known_to_be_ends_the_word() -> None:
    node = Node()
    node.serve(7)
    node.stop()
    node.fs.open(SEGMENT).truncate(0)
    for _ in range(2):
        with pytest.raises(KafkaError, match="ends there, but had records up to 1"):
            node.start()
        assert node.epoch == -1
        node.kill()


def test_an_error_while_the_logs_are_read_is_not_forgotten_by_the_next_start() -> None:
    node = Node()
    node.serve(7)
    node.kill()
    node.fs.failing_fsync = True
    with pytest.raises(OSError, match="input/output"):
        node.start()
    node.kill()
    assert node.start() == -1


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"[]", b'{"version":1,"brokerEpoch":7,"bootId":"boot-1"}', b'{"version":0}']
)
@pytest.mark.parametrize("name", [FILE_NAME, CLEAN_SHUTDOWN])
def test_a_damaged_file_vouches_for_nothing(name: str, content: bytes) -> None:
    node = Node()
    node.serve(7)
    node.kill()
    replace_file(node.fs, LOG_DIR / name, content)
    assert node.start() == -1


def test_a_run_that_cannot_store_its_epoch_ends_and_keeps_the_previous_record() -> None:
    node = Node()
    node.serve(7)
    node.kill()
    node.start()
    node.fs.capacity_bytes = 0
    with pytest.raises(OSError, match="no space"):
        node.logs.run_record.registered(8)
    node.kill()
    assert node.start() == 7


def test_a_log_that_was_made_anew_has_not_lost_what_the_one_before_had() -> None:
    node = Node()
    node.serve(7)
    at_once(node.logs.tick())
    node.logs.delete("orders", 0)
    node.logs.create("orders", 0, OTHER_ID, TopicConfig())
    node.kill()
    logs = LogManager(LOG_DIR, fs=node.fs, clock=node.clock, boot_id=node.boot_id)
    logs.open(lambda _topic: TopicConfig())
    assert logs.run_record.epoch == 7


def test_a_folder_that_no_broker_uses_vouches_for_no_epoch_but_knows_its_boot() -> None:
    node = Node()
    node.kill()
    assert node.start() == -1
    assert node.logs.run_record.page_cache_kept
    node.lose_power()
    assert node.start() == -1
    assert not node.logs.run_record.page_cache_kept


def test_a_start_that_ends_before_a_power_loss_is_cut_leaves_no_word_of_this_boot() -> None:
    """The next start must not take the torn write of the power loss for damage."""
    node = Node()
    node.serve(7)
    node.lose_power()
    node.fs.failing_fsync = True
    with pytest.raises(OSError, match="input/output"):
        node.start()
    node.kill()
    node.start()
    assert not node.logs.run_record.page_cache_kept


def test_a_folder_that_is_lost_is_missed_from_the_first_checkpoint_that_names_it() -> None:
    node = Node()
    node.serve(7)
    node.kill()
    node.fs.lose(SEGMENT.parent)
    assert node.start() == 7
    node.serve(8)
    at_once(node.logs.tick())
    node.kill()
    node.fs.lose(SEGMENT.parent)
    with pytest.raises(KafkaError, match="is lost"):
        node.start()
    assert node.epoch == -1
