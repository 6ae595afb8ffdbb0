"""The bytes of what a partition of __consumer_offsets says, in Apache Kafka's own formats. Pure."""

from broker_runtime.groups.records import GroupRecord
from broker_runtime.storage.batching import KeyValue


class DamagedRecordError(ValueError):
    """Bytes that are no record of a coordinator; the message says of which type, and of which group if it is known."""


def encode(record: GroupRecord) -> KeyValue:
    raise NotImplementedError(record)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """None for types that this broker has no use for, which newer and other coordinators write.

    Raises DamagedRecordError.
    """
    raise NotImplementedError(key, value)
