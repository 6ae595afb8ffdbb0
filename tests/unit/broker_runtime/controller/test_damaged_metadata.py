"""A controller with damaged metadata does not start: it would forget topics that have records."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from broker_runtime.config import BrokerSettings, TopicConfig, broker_settings
from broker_runtime.controller.history import ReplayError
from broker_runtime.controller.journal.choice import JournalParts
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.node.controller_node import JOURNAL_CONFIG, ControllerNode
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.journal_store import MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock
from tests.unit.broker_runtime.cluster.test_follower import NoServer, write

DATA = Path("/data")
FOLDER = DATA / "__cluster_metadata-0"
SEGMENT = FOLDER / f"{0:020}.log"


def settings_of(**more: str) -> BrokerSettings:
    return broker_settings(
        {
            "node.id": "1",
            "process.roles": "controller",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(DATA),
            **more,
        }
    )


class Machine:
    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.clock = ManualClock()
        self.boot = "boot-1"
        self.objects = SharedObjects()

    def open(self, *, copy: str | None = None) -> LogManager:
        self.logs = LogManager(DATA, fs=self.fs, clock=self.clock, boot_id=self.boot)
        self.logs.open(lambda _topic: JOURNAL_CONFIG, journal=None if copy else METADATA_TOPIC, copy=copy)
        return self.logs

    async def start(self, settings: BrokerSettings | None = None) -> ControllerNode:
        parts = JournalParts(InlineExecutor(), "test", MemoryStore(self.objects))
        settings = settings if settings is not None else settings_of()
        node = ControllerNode(settings, self.clock, self.open(), "cluster", parts=parts, server=NoServer())
        await node.start()
        return node

    def kill(self) -> None:
        self.fs = self.fs.process_killed()

    def lose_power(self) -> None:
        self.fs = self.fs.power_loss(Random(1))
        self.boot += "+"

    def flip(self, at: int) -> None:
        file = self.fs.open(SEGMENT)
        file.write_at([bytes([file.pread(1, at)[0] ^ 1])], at)
        file.fsync()

    def checkpoint(self) -> None:
        self.clock.advance(61)
        at_once(self.logs.tick())


async def _with_some_metadata(machine: Machine) -> None:
    node = await machine.start()
    for number in range(20):
        await write(node, ConfigRecord(4, "", "max.connections", str(number + 1)))


@pytest.mark.parametrize("end", [Machine.kill, Machine.lose_power])
async def test_one_flipped_byte_keeps_the_controller_from_starting(end: Callable[[Machine], None]) -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.checkpoint()
    end(machine)
    machine.flip(machine.fs.open(SEGMENT).size() // 2)
    before = machine.fs.open(SEGMENT).pread(1 << 20, 0)
    for _ in range(2):
        with pytest.raises(ReplayError, match=r"cannot start without its metadata .*Restore the folder"):
            await machine.start()
        machine.logs.close()
        machine.kill()
    assert machine.fs.open(SEGMENT).pread(1 << 20, 0) == before


async def test_after_a_kill_what_was_not_checkpointed_counts_too() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.kill()
    machine.flip(machine.fs.open(SEGMENT).size() - 5)
    with pytest.raises(ReplayError, match="checksum"):
        await machine.start()


async def test_records_below_the_stored_high_watermark_must_exist() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.clock.advance(6)
    at_once(machine.logs.tick())
    machine.fs.open(DATA / "replication-offset-checkpoint").fsync()
    machine.fs.fsync_dir(DATA)
    machine.lose_power()
    machine.flip(machine.fs.open(SEGMENT).size() // 2)
    with pytest.raises(ReplayError, match="cannot start without its metadata"):
        await machine.start()


async def test_damage_before_whole_batches_is_not_a_torn_tail_after_a_power_loss() -> None:
    """No checkpoint says that they were committed, but the log is synced in order before any client gets an answer."""
    machine = Machine()
    await _with_some_metadata(machine)
    machine.lose_power()
    machine.flip(machine.fs.open(SEGMENT).size() // 2)
    with pytest.raises(ReplayError, match="cannot start without its metadata"):
        await machine.start()


async def test_the_epoch_that_a_broker_has_noted_is_an_offset_that_must_be_there() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.logs.run_record.registered(machine.logs.logs()[0].log_end_offset - 1)
    machine.lose_power()
    machine.flip(machine.fs.open(SEGMENT).size() // 2)
    for _ in range(2):
        with pytest.raises(ReplayError, match="cannot start without its metadata"):
            await machine.start()
        machine.kill()


async def test_a_torn_tail_that_nobody_was_answered_for_is_cut() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.checkpoint()
    end = machine.logs.logs()[0].log_end_offset
    torn = encode_batch([(None, b"never answered")], 0)[:-3]
    file = machine.fs.open(SEGMENT)
    file.write_at([end.to_bytes(8, "big") + torn[8:]], file.size())
    machine.kill()
    node = await machine.start()
    assert node.image.configs.of_broker(None)["max.connections"] == "20"


async def test_metadata_that_is_lost_while_there_are_partitions_keeps_the_controller_from_starting() -> None:
    machine = Machine()
    logs = machine.open()
    logs.create("orders", 0, UUID(int=7), TopicConfig()).append(memoryview(encode_batch([(b"k", b"v")], 1)))
    logs.close()
    machine.kill()
    for _ in range(2):
        with pytest.raises(ReplayError, match=r"has no metadata, but /data has 1 partitions \(for example orders-0\)"):
            await machine.start()
        machine.logs.close()
        machine.kill()


async def test_a_metadata_log_that_is_lost_is_missed_after_a_power_loss_too() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.lose_power()
    machine.fs.lose(SEGMENT)
    with pytest.raises(ReplayError, match="cannot start without its metadata"):
        await machine.start()


async def test_with_a_journal_elsewhere_a_damaged_copy_costs_a_broker_no_word_for_its_records() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.checkpoint()
    machine.logs.run_record.registered(9)
    machine.kill()
    machine.flip(machine.fs.open(SEGMENT).size() // 2)
    machine.open(copy=METADATA_TOPIC)
    assert machine.logs.damaged == {}
    assert machine.logs.run_record.epoch == 9


async def test_with_a_journal_elsewhere_a_damaged_copy_is_thrown_away() -> None:
    machine = Machine()
    await _with_some_metadata(machine)
    machine.checkpoint()
    machine.kill()
    machine.flip(machine.fs.open(SEGMENT).size() // 2)
    journal = {"sluicegate.controller.journal": "kubernetes", "sluicegate.controller.journal.name": "test"}
    await machine.start(settings_of(**journal))
    assert machine.logs.damaged == {}
    assert machine.logs.get(METADATA_TOPIC, 0) is not None
