"""The topics that brokers make for themselves: how they are made, and that clients produce nothing to them. Pure."""

from broker_runtime.apis.auto_topic_creation import with_defaults
from broker_runtime.config.broker import BrokerConfig
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.wire.messages import Fields

_GROUP_RECORD_BYTES_MAX = 16 * 1024 * 1024
"""All members of a group of the classic protocol stand in one record: 5,000 of them take a megabyte, which is what a
batch may have elsewhere."""


def made_as(name: str, image: MetadataImage, config: BrokerConfig) -> Fields:
    """What CreateTopics asks for, where a client has asked for something that needs the topic.

    __consumer_offsets has as many replicas as there are brokers, fenced ones too, up to its factor: Apache Kafka waits
    for brokers that may never come.
    """
    if name != GROUPS_TOPIC:
        return with_defaults(name)
    brokers = sum(broker.stopping_offset is None for broker in image.brokers.values())
    return {
        "name": name,
        "num_partitions": config.offsets_topic_num_partitions,
        "replication_factor": max(1, min(config.offsets_topic_replication_factor, brokers)),
        "assignments": (),
        "configs": [
            {"name": "cleanup.policy", "value": "compact"},
            {"name": "compression.type", "value": "producer"},
            {"name": "segment.bytes", "value": str(config.offsets_topic_segment_bytes)},
            {"name": "max.message.bytes", "value": str(max(config.message_max_bytes, _GROUP_RECORD_BYTES_MAX))},
        ],
    }
