"""The encoding of the records in a partition of __consumer_offsets, in Apache Kafka's formats. Pure.

A key consists of its type's number and its fields, a value of its version's number and its fields. The schemas are
those of Apache Kafka 4.3's group coordinator; older versions are read too.
"""

from broker_runtime.groups.record_codec.classic import write_member
from broker_runtime.groups.record_codec.codec import decode, encode, encoding
from broker_runtime.groups.record_codec.damage import DamagedRecordError

__all__ = ["DamagedRecordError", "decode", "encode", "encoding", "write_member"]
