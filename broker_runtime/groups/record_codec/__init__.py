"""The bytes of what a partition of __consumer_offsets says, in Apache Kafka's own formats. Pure.

A key is the number of its type and its fields, a value the number of its version and its fields; the schemas are those
of Apache Kafka 4.3's group coordinator, and older versions are read.
"""

from broker_runtime.groups.record_codec.classic import write_member
from broker_runtime.groups.record_codec.codec import decode, encode, encoding
from broker_runtime.groups.record_codec.damage import DamagedRecordError

__all__ = ["DamagedRecordError", "decode", "encode", "encoding", "write_member"]
