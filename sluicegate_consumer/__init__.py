"""A consumer of push groups: the coordinator assigns partitions, and the consumer reads them (docs/consumer.md)."""

from sluicegate_consumer.config import Settings
from sluicegate_consumer.consumer import Consumer
from sluicegate_consumer.errors import (
    AuthenticationError,
    CallbackFailedError,
    CommitRefusedError,
    ConsumerError,
    CorruptRecordsError,
    FetchRefusedError,
    RegistrationRefusedError,
    SettingsError,
)
from sluicegate_consumer.listener import Listener
from sluicegate_consumer.record import Record, TopicPartition
from sluicegate_consumer.security.credentials import SaslPassword, SaslToken
from sluicegate_consumer.streams import Stream
from sluicegate_consumer.sync import SyncConsumer

__all__ = [
    "AuthenticationError",
    "CallbackFailedError",
    "CommitRefusedError",
    "Consumer",
    "ConsumerError",
    "CorruptRecordsError",
    "FetchRefusedError",
    "Listener",
    "Record",
    "RegistrationRefusedError",
    "SaslPassword",
    "SaslToken",
    "Settings",
    "SettingsError",
    "Stream",
    "SyncConsumer",
    "TopicPartition",
]
