"""The creation of __consumer_offsets, and its size limits for the records of groups."""

from typing import Any

from broker_runtime.apis.topics.internal_topics import made_as
from broker_runtime.config import TopicConfig
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.groups.record_codec import encode
from broker_runtime.groups.records import ClassicMember, GroupMetadataKey, GroupMetadataValue, GroupRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.storage.records.validation import check_batch
from kafka_bytes.batches import encode_batch

CONFIG = BrokerConfig()


def offsets_topic(config: BrokerConfig = CONFIG) -> TopicConfig:
    configs: Any = made_as("__consumer_offsets", MetadataImage(), config)["configs"]
    return TopicConfig.of({entry["name"]: entry["value"] for entry in configs})


def test_the_offsets_topic_is_compacted_with_its_own_segment_size() -> None:
    topic = offsets_topic(BrokerConfig(offsets_topic_segment_bytes=1 << 20))
    assert (topic.cleanup_policy, topic.segment_bytes) == (("compact",), 1 << 20)


def test_a_group_of_as_many_members_as_there_may_be_has_room_in_one_record() -> None:
    name = "consumer-billing-1-5426ea6e-7f4f-4a94-ac01-132ddcd03faf"
    member = ClassicMember(name, None, "consumer-billing-1", "/10.20.30.40", 300_000, 45_000, b"s" * 300, b"a" * 300)
    value = GroupMetadataValue("consumer", 7, "range", name, 1, (member,) * CONFIG.group_max_size)
    batch = encode_batch([encode(GroupRecord(GroupMetadataKey("billing"), value))], 1)
    assert len(batch) > CONFIG.message_max_bytes
    assert check_batch(memoryview(batch), offsets_topic(), 1)


def test_batches_may_be_as_large_as_elsewhere_at_least() -> None:
    assert offsets_topic(BrokerConfig(message_max_bytes=1 << 26)).max_message_bytes == 1 << 26
