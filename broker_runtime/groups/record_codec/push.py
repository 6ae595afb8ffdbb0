"""Groups of the push protocol: a type of record of Sluicegate's own, flexible like those of KIP-848. Pure.

Decoding damaged bytes raises ValueError or ProtocolError.
"""

from collections.abc import Iterable

from broker_runtime.groups.record_codec.texts import INT8, INT32, NO_TAGS, compact
from broker_runtime.groups.records import PushMemberValue
from broker_runtime.wire.encoding.reader import RequestReader

MEMBER_TYPE = 30_001
"""The record type of push members. Apache Kafka numbers its own types from 0 up, and ignores unknown ones."""


def write_member(value: PushMemberValue) -> Iterable[bytes]:
    """Return the parts of the encoded registration of a push member."""
    return (
        compact(value.topic_count),
        INT8.pack(value.auto_commit),
        compact(value.auto_offset_reset),
        INT32.pack(value.session_timeout_ms),
        compact(value.client_host),
        NO_TAGS,
    )


def read_member(reader: RequestReader) -> PushMemberValue:
    topic_count = reader.string()
    auto_commit = bool(reader.fixed(INT8)[0])
    reset = reader.string()
    (session_timeout_ms,) = reader.fixed(INT32)
    host = reader.string()
    reader.end_struct()
    return PushMemberValue(topic_count, auto_commit, reset, session_timeout_ms, host)
