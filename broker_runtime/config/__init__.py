"""Configuration: every key and every limit of the broker. Pure."""

from broker_runtime.config.definition import ConfigKey, Type, UpdateMode
from broker_runtime.config.topic import BROKER_SYNONYMS, TOPIC_KEYS, TopicConfig

__all__ = ["BROKER_SYNONYMS", "TOPIC_KEYS", "ConfigKey", "TopicConfig", "Type", "UpdateMode"]
