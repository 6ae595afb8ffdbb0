"""Races of the `kubernetes` journal that a contract cannot stage: events between two of its requests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.controller.journal.kubernetes import KubernetesJournal
from broker_runtime.controller.journal.seam import (
    DeposedError,
    JournalDamagedError,
    JournalUnavailableError,
    Snapshot,
)
from broker_runtime.controller.journal.store import Part, StoredObject
from broker_runtime.metadata.topic_names import METADATA_TOPIC, METADATA_TOPIC_ID
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.journal_store import NO_FAULT, Fault, MemoryStore, SharedObjects
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run


class InterruptedStore(MemoryStore):
    """A store in which `meanwhile` happens once, just before the batches are listed."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def list(self, part: Part) -> Sequence[StoredObject]:
        if part == "batch" and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        return await super().list(part)


class Controller:
    def __init__(self, shared: SharedObjects) -> None:
        logs = LogManager(Path("/data"), fs=MemoryFileSystem(), clock=ManualClock())
        logs.open(lambda _topic: TopicConfig())
        self.log: Log = logs.create(METADATA_TOPIC, 0, METADATA_TOPIC_ID, TopicConfig())
        self.log.sole_replica = False
        self.store = InterruptedStore(shared)
        self.journal = KubernetesJournal(self.log, self.store, "m", patience_s=4.0)

    async def write(self, value: bytes) -> None:
        self.log.append(memoryview(encode_batch([(None, value)], 0)))
        await self.journal.commit()

    def snapshot(self, epoch: int = 1, text: bytes = b"s") -> Snapshot:
        return Snapshot(self.log.log_end_offset, epoch, encode_batch([(None, text)], 0))


async def loaded(shared: SharedObjects, *values: bytes) -> Controller:
    controller = Controller(shared)
    await controller.journal.load()
    for value in values:
        await controller.write(value)
    return controller


def staged(main: Callable[[SharedObjects], Awaitable[None]]) -> None:
    async def play() -> None:
        await main(SharedObjects())

    run(play(), ManualClock())


def test_a_compaction_in_the_middle_of_a_load_is_noticed() -> None:
    async def main(shared: SharedObjects) -> None:
        writer = await loaded(shared, b"a", b"b")
        taken = writer.snapshot()

        async def compact_and_go_on() -> None:
            await writer.journal.write_snapshot(taken)
            await writer.write(b"c")

        reader = Controller(shared)
        reader.store.meanwhile = compact_and_go_on
        assert await reader.journal.load() == taken
        assert (reader.log.log_start_offset, reader.log.log_end_offset) == (2, 3)

    staged(main)


def test_a_create_that_arrives_late_either_counts_for_all_or_for_nobody() -> None:
    """The sender of the create has given up, and its successor is active: the successor's first object has the name."""

    async def main(shared: SharedObjects) -> None:
        old = await loaded(shared, b"a")
        old.store.faults = lambda operation, _name: Fault(delay_s=60.0) if operation == "create" else NO_FAULT
        late = asyncio.ensure_future(old.write(b"late"))
        await asyncio.sleep(1.0)
        new = await loaded(shared, b"new", b"newer")
        with pytest.raises(DeposedError):
            await late
        third = await loaded(shared)
        assert third.log.log_end_offset == new.log.log_end_offset == 3

    staged(main)


def test_a_half_written_snapshot_does_not_count_and_is_cleaned_up() -> None:
    async def main(shared: SharedObjects) -> None:
        writer = await loaded(shared, b"a", b"b")
        writer.store.faults = lambda operation, name: Fault(lost=name == "m-manifest" and operation == "create")
        with pytest.raises(JournalUnavailableError):
            await writer.journal.write_snapshot(writer.snapshot())
        next_one = await loaded(shared, b"c")
        assert next_one.log.log_start_offset == 0
        await next_one.journal.write_snapshot(next_one.snapshot(epoch=2))
        assert [name for name in shared.objects if "snapshot" in name] == [f"m-snapshot-{3:020d}-{2:010d}-0000"]

    staged(main)


def test_a_snapshot_that_is_tried_again_replaces_what_the_first_attempt_left() -> None:
    async def main(shared: SharedObjects) -> None:
        writer = await loaded(shared, b"a")
        shared.create(f"m-snapshot-{1:020d}-{1:010d}-0000", "snapshot", b"half of it")
        taken = writer.snapshot(text=b"whole")
        await writer.journal.write_snapshot(taken)
        assert await Controller(shared).journal.load() == taken

    staged(main)


def test_a_store_that_does_not_answer_is_given_up_after_a_lease() -> None:
    async def main(shared: SharedObjects) -> None:
        writer = await loaded(shared, b"a")
        writer.store.cut = True
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(JournalUnavailableError, match="does not answer"):
            await writer.write(b"b")
        assert 3.0 < asyncio.get_running_loop().time() - began_s <= 4.0

    staged(main)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda shared: shared.delete(f"m-batch-{1:020d}"), "no object for offset 1"),
        (lambda shared: shared.create("m-notes", "batch", b""), "its name is not one of the journal's"),
        (lambda shared: shared.create(f"m-batch-{3:020d}", "batch", b"?" * 80), "does not have complete batches"),
        (lambda shared: shared.create("m-manifest", "manifest", b"{}"), "cannot be read"),
        (
            lambda shared: shared.create(
                "m-manifest", "manifest", b'{"endOffset":2,"epoch":1,"chunks":1,"bytes":3,"checksum":1}'
            ),
            "an incomplete snapshot",
        ),
    ],
)
def test_damage_is_said(spoil: Callable[[SharedObjects], object], sentence: str) -> None:
    async def main(shared: SharedObjects) -> None:
        await loaded(shared, b"a", b"b", b"c")
        spoil(shared)
        with pytest.raises(JournalDamagedError, match=sentence):
            await loaded(shared)

    staged(main)


def test_copies_of_a_journals_objects_are_neither_read_nor_deleted() -> None:
    """A user who copies a ConfigMap with kubectl copies its labels."""

    async def main(shared: SharedObjects) -> None:
        writer = await loaded(shared, b"a", b"b")
        first, copies = shared.objects[f"m-batch-{0:020d}"][1].data, ("backup", f"m-batch-{0:020d}-copy")
        for name in copies:
            shared.create(name, "batch", first)
        assert (await loaded(shared)).log.log_end_offset == 2
        taken = writer.snapshot()
        await writer.journal.write_snapshot(taken)
        shared.create(f"m-snapshot-{2:020d}-{1:010d}-0000-copy", "snapshot", taken.payload)
        reader = Controller(shared)
        assert await reader.journal.load() == taken, "the original is below the snapshot now"
        await reader.write(b"c")
        await reader.journal.write_snapshot(reader.snapshot(epoch=2))
        assert sorted(name for name in shared.objects if f"{3:020d}" not in name) == sorted(
            (*copies, "m-manifest", f"m-snapshot-{2:020d}-{1:010d}-0000-copy")
        )

    staged(main)


def test_records_that_only_an_object_of_another_name_has_are_not_ignored() -> None:
    """A tool may restore the journal's objects under other names."""

    async def main(shared: SharedObjects) -> None:
        await loaded(shared, b"a", b"b")
        last = shared.objects[f"m-batch-{1:020d}"][1].data
        shared.delete(f"m-batch-{1:020d}")
        shared.create(f"restored-m-batch-{1:020d}", "batch", last)
        with pytest.raises(JournalDamagedError, match="restore it under its own name"):
            await loaded(shared)

    staged(main)
