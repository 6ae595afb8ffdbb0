"""A replica with a damaged end does not lead; to follow a complete leader it is cut at the damage."""

from typing import cast
from uuid import UUID

import pytest

from broker_runtime.clock import Clock
from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log_dir.manager import LogManager
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LOG_DIR, TOPIC_ID

ME, OTHER = 1, 2


class Broker:
    """A broker with two partitions of one topic, the first of which has lost its last batch, of offset 9."""

    def __init__(self) -> None:
        fs, clock = MemoryFileSystem(), ManualClock()
        logs = _opened(fs, clock)
        for index in (0, 1):
            log = logs.create("orders", index, TOPIC_ID, TopicConfig())
            for number in range(10):
                log.append(memoryview(encode_batch([(b"k", b"%d" % number)], clock.wall_ms())))
        size = logs.logs()[0].segments[0].size
        logs.close()
        folder = LOG_DIR / "orders-0"
        fs.open(folder / f"{0:020}.log").write_at([b"\xff"], size - 5)
        fs.unlink(folder / f"{0:020}.index")
        self.fs = fs.process_killed()
        self.logs = _opened(self.fs, clock)
        self.image = MetadataImage()
        settings = broker_settings({"node.id": str(ME)})
        self.manager = ReplicaManager(settings, clock, self.logs, self.image, cast("Peers", None))

    def hear(self, *records: MetadataRecord) -> None:
        changes = Changes()
        for record in records:
            changes.update(self.image.apply(record, self.image.offset + 1))
        self.manager.note_removals(changes.removals)
        list(self.manager.remove_topics(changes.topics_removed))
        for topic_id, index in changes.partitions:
            list(self.manager.apply_partitions(topic_id, [index], TopicConfig()))


def _opened(fs: MemoryFileSystem, clock: Clock) -> LogManager:
    logs = LogManager(LOG_DIR, fs=fs, clock=clock)
    logs.open(lambda _topic: TopicConfig())
    return logs


def partition(index: int, leader: int, epoch: int = 0) -> PartitionRecord:
    return PartitionRecord(TOPIC_ID, index, (ME, OTHER), (leader,) if leader > 0 else (ME,), leader, epoch, epoch)


TOPIC = TopicRecord("orders", TOPIC_ID)


@pytest.mark.parametrize("leader", [ME, -1])
def test_as_the_only_copy_it_is_offline_and_the_others_are_served(leader: int) -> None:
    broker = Broker()
    broker.hear(TOPIC, partition(0, leader), partition(1, ME))
    assert broker.manager.led_replicas.led("orders", 1).log.log_end_offset == 10
    with pytest.raises(KafkaError) as refused:
        broker.manager.led_replicas.led("orders", 0)
    assert leader != ME or refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    (note,) = broker.manager.offline_notes()
    assert note.startswith("orders-0 is not served: KAFKA_STORAGE_ERROR: its log is damaged on this broker")
    assert "intact only up to offset 9" in note
    assert "accept-loss" in note


def test_once_another_leads_it_is_cut_and_follows() -> None:
    broker = Broker()
    broker.hear(TOPIC, partition(0, -1))
    assert ("orders", 0) in broker.logs.damaged
    broker.hear(partition(0, OTHER, epoch=1))
    log = broker.logs.get("orders", 0)
    assert log is not None
    assert (log.log_end_offset, log.sole_replica, broker.manager.offline) == (9, False, {})


def test_its_topic_may_be_deleted_and_made_again() -> None:
    broker = Broker()
    broker.hear(TOPIC, partition(0, ME), partition(1, ME))
    broker.hear(RemoveTopic(TOPIC_ID))
    assert (broker.logs.holdings(), broker.manager.offline) == ([], {})
    broker.hear(TopicRecord("orders", UUID(int=9)), PartitionRecord(UUID(int=9), 0, (ME,), (ME,), ME, 0, 0))
    assert broker.manager.led_replicas.led("orders", 0).log.log_end_offset == 0


def test_a_damaged_replica_missing_from_the_metadata_is_set_aside() -> None:
    broker = Broker()
    list(broker.manager.remove_strays())
    assert len(broker.logs.strays) == 2
    assert broker.logs.damaged == {}


def test_many_partitions_that_are_not_served_are_not_all_told() -> None:
    broker = Broker()
    broker.manager.offline = {("orders", number): "damaged" for number in range(30)}
    notes = broker.manager.offline_notes()
    assert (len(notes), notes[-1]) == (21, "10 more partitions are not served")
