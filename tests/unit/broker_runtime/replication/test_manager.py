"""A broker's errors for partitions that it does not lead, and their reasons."""

import gc
import weakref
from typing import cast
from uuid import UUID

import pytest

from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.slicing.steps import at_once
from tests.support.fakes.disks.manual_disk import ManualDisk
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse

ME = 1


def manager_of(house: LogHouse) -> ReplicaManager:
    image = MetadataImage()
    image.apply(TopicRecord("orders", TOPIC_ID), 0)
    image.apply(PartitionRecord(TOPIC_ID, 0, (ME, 2), (ME,), ME, 0, 0), 1)
    manager = ReplicaManager(broker_settings({"node.id": str(ME)}), house.clock, house.logs, image, cast("Peers", None))
    list(manager.apply_partitions(TOPIC_ID, [0], TopicConfig()))
    return manager


def code_of(manager: ReplicaManager, topic: str = "orders", index: int = 0) -> ErrorCode | int:
    with pytest.raises(KafkaError) as refused:
        manager.led_replicas.led(topic, index)
    return refused.value.code


def test_missing_and_unopenable_logs_have_different_errors() -> None:
    house = LogHouse()
    assert manager_of(house).led_replicas.led("orders", 0).log is house.log
    assert code_of(manager_of(house), "other") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    house.logs.delete("orders", 0)
    house.fs.read_only = True
    assert code_of(manager_of(house)) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_broker_that_stops_leads_no_more_whatever_the_metadata_still_says() -> None:
    """The controller, which would have moved the leadership, is away: followers should look for another leader."""
    house = LogHouse()
    manager = manager_of(house)
    await manager.stop()
    assert code_of(manager) == ErrorCode.NOT_LEADER_OR_FOLLOWER


NEW_ID = UUID(int=77)


def make_again(manager: ReplicaManager, leader: int = ME) -> None:
    """Delete and create the topic in the image at once; logs follow over time slices."""
    image = manager._image
    removal = image.apply(RemoveTopic(TOPIC_ID), image.next_offset)
    image.apply(TopicRecord("orders", NEW_ID), image.next_offset)
    image.apply(PartitionRecord(NEW_ID, 0, (ME, 2), (leader,), leader, 0, 0), image.next_offset)
    manager.note_removals(removal.removals)


def test_a_removed_topics_log_accepts_no_records_while_it_waits_for_its_deletion() -> None:
    """The records would be acknowledged to producers of the topic that has the name now, and then deleted."""
    house = LogHouse()
    manager = manager_of(house)
    make_again(manager)
    assert code_of(manager) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    list(manager.remove_topics({"orders"}))
    list(manager.apply_partitions(NEW_ID, [0], TopicConfig()))
    assert manager.led_replicas.led("orders", 0).topic_id == NEW_ID


@pytest.mark.parametrize("leader", [ME, 2])
def test_a_topic_made_again_is_served_though_it_is_applied_before_the_removal(leader: int) -> None:
    """A step for its name may have been pending when the topic was removed, and it uses the metadata of its time."""
    house = LogHouse()
    manager = manager_of(house)
    if leader != ME:
        manager._image.apply(PartitionRecord(TOPIC_ID, 0, (ME, 2), (2,), 2, 0, 1), 2)
        list(manager.apply_partitions(TOPIC_ID, [0], TopicConfig()))
    make_again(manager, leader)
    list(manager.apply_partitions(NEW_ID, [0], TopicConfig()))
    list(manager.remove_topics({"orders"}))
    replica = (
        manager.led_replicas.led("orders", 0) if leader == ME else manager.followed_replicas.followers["orders", 0]
    )
    assert (replica.topic_id, replica.log) == (NEW_ID, house.logs.get("orders", 0))
    assert replica.log.failure is None


def test_what_a_removed_partition_was_made_of_is_freed_without_the_garbage_collector() -> None:
    """Partitions are the most numerous objects; a broker's garbage collector does not scan for them."""
    house = LogHouse()
    manager, image = manager_of(house), MetadataImage()
    replica = weakref.ref(house.log)
    at_once(house.logs.tick())
    at_once(manager._image.replace_by(image))
    gc.collect()
    gc.disable()
    try:
        del house.log
        list(manager.remove_topics({"orders"}))
        assert house.logs.get("orders", 0) is None
        assert replica() is None
    finally:
        gc.enable()


def test_files_of_new_logs_are_made_beside_the_loop_before_they_are_served() -> None:
    disk = ManualDisk()
    house = LogHouse(disk=disk)
    manager = manager_of(house)
    image = manager._image
    image.apply(TopicRecord("many", NEW_ID), image.next_offset)
    for index in range(3):
        image.apply(PartitionRecord(NEW_ID, index, (ME,), (ME,), ME, 0, 0), image.next_offset)
    steps = manager.apply_partitions(NEW_ID, range(3), TopicConfig())
    pause = next(steps)
    assert pause is not None
    resumed: list[None] = []
    pause(lambda: resumed.append(None))
    assert (resumed, disk.busy, house.fs.exists(LOG_DIR / "many-0")) == ([], 1, False)
    disk.finish_all()
    assert resumed == [None]
    house.fs.before_change = _nothing_is_to_change
    assert list(steps) == [None] * 3
    assert manager.led_replicas.led("many", 2).log.log_end_offset == 0


def _nothing_is_to_change() -> None:
    raise AssertionError("the event loop is not to wait for the disk")


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_deleted_while_its_files_are_created_leaves_none(is_made_again: bool) -> None:
    disk = ManualDisk()
    house = LogHouse(disk=disk)
    manager = manager_of(house)
    image = manager._image
    image.apply(TopicRecord("short", NEW_ID), image.next_offset)
    image.apply(PartitionRecord(NEW_ID, 0, (ME,), (ME,), ME, 0, 0), image.next_offset)
    steps = manager.apply_partitions(NEW_ID, [0], TopicConfig())
    pause = next(steps)
    assert pause is not None
    pause(lambda: None)
    image.apply(RemoveTopic(NEW_ID), image.next_offset)
    if is_made_again:
        image.apply(TopicRecord("short", UUID(int=78)), image.next_offset)
        image.apply(PartitionRecord(UUID(int=78), 0, (ME,), (ME,), ME, 0, 0), image.next_offset)
    disk.slow = False
    disk.finish_all()
    assert list(steps) == []
    house.clock.advance(61)
    for _ in range(3):
        at_once(house.logs.tick())
    assert not [name for name in house.fs.listdir(LOG_DIR) if name.startswith("short")]
    if is_made_again:
        list(manager.apply_partitions(UUID(int=78), [0], TopicConfig()))
        assert manager.led_replicas.led("short", 0).topic_id == UUID(int=78)
    assert len(house.logs.strays) == 0
