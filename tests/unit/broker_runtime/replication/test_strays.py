"""A log is deleted only when a record has ordered it; a log that the metadata does not name is set aside."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from broker_runtime.config import TopicConfig, broker_settings
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.replication.manager import ReplicaManager
from broker_runtime.replication.peer import Peers
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.stray import parting_name
from tests.support.logs.logs import LOG_DIR, TOPIC_ID, LogHouse, values_of

ME = 1


class Replicas:
    """Broker 1 with the log of orders-0, ten records in it, and the metadata that its manager follows."""

    def __init__(self, house: LogHouse | None = None) -> None:
        self.house = house if house is not None else LogHouse()
        if house is None:
            self.house.append(*[b"%d" % n for n in range(10)])
        self.image = MetadataImage()
        settings = broker_settings({"node.id": str(ME)})
        logs = self.house.logs
        self.manager = ReplicaManager(settings, self.house.clock, logs, self.image, cast("Peers", None))

    def apply(self, *records: MetadataRecord) -> Changes:
        changes = Changes()
        for record in records:
            changes.update(self.image.apply(record, self.image.offset + 1))
        self.manager.note_removals(changes.removals)
        return changes

    def take_up(self) -> None:
        """Apply the metadata, as a broker that has been admitted."""
        list(self.manager.remove_strays())
        for topic in self.image.topics.values():
            list(self.manager.apply_partitions(topic.id, topic.partitions, TopicConfig()))

    def folders(self, suffix: str) -> Sequence[str]:
        return [name for name in self.house.fs.listdir(LOG_DIR) if name.endswith(suffix)]


def orders(*replicas: int, topic_id: UUID = TOPIC_ID) -> Sequence[MetadataRecord]:
    return TopicRecord("orders", topic_id), PartitionRecord(topic_id, 0, replicas, replicas, replicas[0], 0, 0)


def test_a_log_that_the_metadata_does_not_name_is_set_aside_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    node = Replicas()
    node.take_up()
    (stray,) = node.folders("-stray")
    assert stray.startswith("orders-0.")
    assert (len(node.house.logs.strays), node.folders("-delete"), node.house.logs.get("orders", 0)) == (1, [], None)
    (said,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert stray in said
    assert "no record of the metadata has deleted it" in said
    node.house.clock.advance(100_000)
    at_once(node.house.logs.tick())
    assert node.folders("-stray") == [stray]


def test_what_a_record_has_removed_while_the_broker_was_away_is_deleted() -> None:
    node = Replicas()
    node.apply(*orders(ME))
    node.apply(RemoveTopic(TOPIC_ID))
    node.take_up()
    assert (len(node.folders("-delete")), node.folders("-stray")) == (1, [])


def test_a_replica_that_a_record_has_moved_away_is_deleted() -> None:
    node = Replicas()
    node.apply(*orders(ME))
    node.apply(PartitionRecord(TOPIC_ID, 0, (2,), (2,), 2, 1, 1))
    node.take_up()
    assert (len(node.folders("-delete")), node.folders("-stray")) == (1, [])


def test_a_replica_that_no_known_record_moved_away_is_set_aside() -> None:
    """The metadata may come from an older copy, in which the partition was elsewhere."""
    node = Replicas()
    node.apply(*orders(2))
    node.take_up()
    assert (node.folders("-delete"), len(node.folders("-stray"))) == ([], 1)


def test_a_reassigned_log_is_kept_and_deleted_only_by_the_next_order() -> None:
    node = Replicas()
    node.apply(*orders(ME))
    node.apply(PartitionRecord(TOPIC_ID, 0, (2,), (2,), 2, 1, 1))
    node.apply(PartitionRecord(TOPIC_ID, 0, (ME,), (ME,), ME, 2, 2))
    node.take_up()
    assert values_of(node.house.log) == [b"%d" % n for n in range(10)]
    at_once(node.image.replace_by(MetadataImage()))
    list(node.manager.remove_strays())
    assert (node.folders("-delete"), len(node.folders("-stray"))) == ([], 1)


def test_the_log_of_an_earlier_topic_of_that_name_is_deleted_by_its_record() -> None:
    node = Replicas()
    again = UUID(int=8)
    node.apply(*orders(ME))
    node.apply(RemoveTopic(TOPIC_ID))
    node.apply(*orders(ME, topic_id=again))
    node.take_up()
    assert (len(node.folders("-delete")), node.folders("-stray")) == (1, [])
    made = node.house.logs.get("orders", 0)
    assert made is not None
    assert (made.topic_id, made.log_end_offset) == (again, 0)


@pytest.mark.parametrize("begin", [lambda manager: manager.remove_topics({"orders"}), ReplicaManager.remove_strays])
def test_a_removal_spares_a_log_that_was_made_between_two_of_its_steps(
    begin: Callable[[ReplicaManager], Iterator[None]],
) -> None:
    """The removal began with the logs of an earlier topic of that name, which is made again in the meantime."""
    node, again = Replicas(), UUID(int=8)
    node.house.logs.create("orders", 1, TOPIC_ID, TopicConfig())
    node.apply(*orders(ME))
    node.apply(RemoveTopic(TOPIC_ID))
    steps = begin(node.manager)
    next(steps)
    node.apply(*orders(ME, topic_id=again), PartitionRecord(again, 1, (ME,), (ME,), ME, 0, 0))
    list(node.manager.apply_partitions(again, [0, 1], TopicConfig()))
    list(steps)
    assert [node.manager.led_replicas.led("orders", index).topic_id for index in (0, 1)] == [again, again]
    assert node.house.logs.get("orders", 1) is not None


def test_a_topic_that_a_running_broker_misses_in_a_snapshot_is_set_aside() -> None:
    node = Replicas()
    node.apply(*orders(ME))
    node.take_up()
    at_once(node.image.replace_by(MetadataImage()))
    list(node.manager.remove_topics({"orders"}))
    assert (node.folders("-delete"), len(node.folders("-stray"))) == ([], 1)


def test_nothing_empty_leads_in_the_place_of_what_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    """The right metadata is back: its records exist, but under another name."""
    node = Replicas()
    node.take_up()
    node.house.logs.close()
    again = Replicas(_reopened(node.house))
    again.apply(*orders(ME))
    again.take_up()
    assert again.house.logs.get("orders", 0) is None
    assert f"its records are set aside in {again.folders('-stray')[0]}" in caplog.text
    with pytest.raises(KafkaError) as refused:
        again.manager.led_replicas.led("orders", 0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_stray_log_is_used_again_after_it_was_renamed_back() -> None:
    node = Replicas()
    node.take_up()
    node.house.logs.close()
    (stray,) = node.folders("-stray")
    node.house.fs.rename(LOG_DIR / stray, LOG_DIR / "orders-0")
    again = Replicas(_reopened(node.house))
    again.apply(*orders(ME))
    again.take_up()
    log = again.house.logs.get("orders", 0)
    assert log is not None
    assert values_of(log) == [b"%d" % n for n in range(10)]


def test_a_folder_that_cannot_be_set_aside_stops_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    node = Replicas()
    node.house.logs.create("other", 0, UUID(int=9), TopicConfig())
    node.house.fs.failing_fsync = True
    node.take_up()
    assert node.house.logs.logs() == []
    assert "the next start retries" in caplog.text


def test_a_broker_whose_log_is_set_aside_does_not_vouch_for_its_data() -> None:
    node = Replicas()
    record = node.house.logs.run_record
    record.registered(7)
    node.take_up()
    assert record.epoch == -1


def test_the_name_of_a_long_topic_is_cut_as_in_kafka() -> None:
    folder = Path("/data") / ("t" * 249 + "-123")
    name = parting_name(folder, "-stray").name
    assert len(name) == 255
    assert name.endswith("-stray")
    assert "-123." in name


def _reopened(house: LogHouse) -> LogHouse:
    """Open the folder again, without the log that a LogHouse makes for itself."""
    house.logs = house.manager()
    house.logs.open(lambda _topic: house.config)
    return house
