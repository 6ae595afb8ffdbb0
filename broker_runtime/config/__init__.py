"""Configuration: every key and every limit of the broker. Pure.

`declaring` has the types of keys, `keys` has the keys, and `in_force` derives the values that hold now.
"""

from broker_runtime.config.declaring.definition import INT_MAX, LONG_MAX, ConfigKey, Type, UpdateMode, Value
from broker_runtime.config.declaring.endpoints import Endpoint, SecurityProtocol, ServerAddress
from broker_runtime.config.declaring.properties import parse_properties
from broker_runtime.config.in_force.settings import BrokerSettings, broker_settings
from broker_runtime.config.keys.broker import BROKER_KEYS, BrokerConfig, broker_key, split_listener_prefix
from broker_runtime.config.keys.topic import BROKER_SYNONYMS, TOPIC_KEYS, TopicConfig

__all__ = [
    "BROKER_KEYS",
    "BROKER_SYNONYMS",
    "INT_MAX",
    "LONG_MAX",
    "TOPIC_KEYS",
    "BrokerConfig",
    "BrokerSettings",
    "ConfigKey",
    "Endpoint",
    "SecurityProtocol",
    "ServerAddress",
    "TopicConfig",
    "Type",
    "UpdateMode",
    "Value",
    "broker_key",
    "broker_settings",
    "parse_properties",
    "split_listener_prefix",
]
