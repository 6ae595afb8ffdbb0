"""The topics that brokers create for their own use, to which clients cannot produce. Pure."""

from broker_runtime.apis.topics.auto_topic_creation import with_defaults
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.wire.messages import Fields

_GROUP_RECORD_BYTES_MAX = 16 * 1024 * 1024
"""Maximum batch size of the groups' topic. All members of a classic group are in one record: 5,000 members take 1 MB,
which is the limit of a batch in other topics."""


def made_as(name: str, image: MetadataImage, config: BrokerConfig) -> Fields:
    """Return the topic for a CreateTopics request, sent after a client's request that needs the topic.

    __consumer_offsets gets its replication factor, or as many replicas as there are brokers (fenced ones included) if
    that is less. Apache Kafka would wait for brokers that may never be started.
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
