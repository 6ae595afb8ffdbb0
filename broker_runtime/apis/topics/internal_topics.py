"""The topics that brokers create for their own use, to which clients cannot produce. Pure."""

from collections.abc import Callable, Mapping

from broker_runtime.apis.topics.auto_topic_creation import with_defaults
from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from broker_runtime.wire.messages import Fields

_GROUP_RECORD_BYTES_MAX = 16 * 1024 * 1024
"""Maximum batch size of the groups' topic. All members of a classic group are in one record: 5,000 members take 1 MB,
which is the limit of a batch in other topics."""


def made_as(name: str, image: MetadataImage, config: BrokerConfig) -> Fields:
    """Return the fields of an internal topic to create, after a client's request that needs the topic.

    It gets its replication factor, or as many replicas as there are brokers if that is less. Fenced brokers count,
    brokers in a controlled shutdown do not. Apache Kafka would wait for brokers that may never be started.
    """
    make = _MADE.get(name)
    return with_defaults(name) if make is None else make(_brokers(image), config)


def _brokers(image: MetadataImage) -> int:
    return max(1, sum(broker.stopping_offset is None for broker in image.brokers.values()))


def _made(name: str, partitions: int, replicas: int, configs: Mapping[str, object]) -> Fields:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": (),
        "configs": [{"name": key, "value": str(value)} for key, value in configs.items()],
    }


def _groups_topic(brokers: int, config: BrokerConfig) -> Fields:
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": config.offsets_topic_segment_bytes,
        "max.message.bytes": max(config.message_max_bytes, _GROUP_RECORD_BYTES_MAX),
    }
    replicas = min(config.offsets_topic_replication_factor, brokers)
    return _made(GROUPS_TOPIC, config.offsets_topic_num_partitions, replicas, configs)


def _transactions_topic(brokers: int, config: BrokerConfig) -> Fields:
    replicas = min(config.transaction_state_log_replication_factor, brokers)
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": config.transaction_state_log_segment_bytes,
        "min.insync.replicas": min(config.transaction_state_log_min_isr, replicas),
        "unclean.leader.election.enable": "false",
    }
    return _made(TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions, replicas, configs)


_MADE: Mapping[str, Callable[[int, BrokerConfig], Fields]] = {
    GROUPS_TOPIC: _groups_topic,
    TRANSACTIONS_TOPIC: _transactions_topic,
}
"""Functions that return the fields of an internal topic, by its name.

Their arguments are the number of brokers and the configuration.
"""
