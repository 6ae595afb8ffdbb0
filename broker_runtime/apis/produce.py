"""Produce (0), versions 3 to 12: the product's hot path.

The header was parsed once; the fixed fields are read with struct from the frame; the record bytes go from the frame
to the log as they came (one checksum, one append) and one reply is joined from a few packed pieces.

- acks 0 gets no reply; an error then ends the connection, which is all a client can notice (as Kafka does).
- acks -1 asks for min.insync.replicas; a partition has one replica until replication exists.
- Versions 0-2 are advertised for old librdkafka (KIP-896) but refused.
- Not implemented: transactions (a transactional id is answered with INVALID_TXN_STATE), throttling, KIP-951.
"""

from struct import Struct

from broker_runtime.apis.context import Node
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.wire.header import RequestHeader, response_prefix
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import NO_REPLY, Reply
from broker_runtime.wire.versions import PRODUCE, is_flexible
from broker_runtime.wire.writer import array_length, nullable_string, string

_ACKS_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">i")
_RESULT_V2 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_NO_TIMESTAMP = -1
_THROTTLE = b"\x00\x00\x00\x00"
_OK_TAIL_V8 = b"\x00\x00\x00\x00\xff\xff"
_OK_TAIL_V9 = b"\x01\x00\x00"


def handle(frame: memoryview, header: RequestHeader, node: Node) -> Reply:
    version = header.version
    flexible = is_flexible(PRODUCE, version)
    reader = RequestReader(frame, header.body, flexible)
    transactional_id = reader.nullable_string()
    acks, _timeout_ms = reader.fixed(_ACKS_TIMEOUT)
    refusal = _refusal(transactional_id, acks)
    topics = reader.array_length()
    out = [array_length(topics, flexible)]
    failed: KafkaError | None = None
    for _ in range(topics):
        name = reader.string()
        partitions = reader.array_length()
        out.append(string(name, flexible))
        out.append(array_length(partitions, flexible))
        for _ in range(partitions):
            (index,) = reader.fixed(_PARTITION)
            records = reader.nullable_bytes()
            reader.end_struct()
            try:
                if refusal is not None:
                    raise refusal
                out.append(_append(node, name, index, records, acks, version))
            except KafkaError as error:
                failed = error
                out.append(_result(version, index, error.code, -1, _NO_TIMESTAMP, -1, error.message))
        reader.end_struct()
        if flexible:
            out.append(b"\x00")
    if acks == 0:
        if failed is not None:
            raise ProtocolError("acks_0_failed", f"a produce request with acks=0 failed: {failed}")
        return NO_REPLY
    out.append(_THROTTLE)
    if flexible:
        out.append(b"\x00")
    body = b"".join(out)
    return (response_prefix(PRODUCE, version, header.correlation_id, len(body)) + body,)


def _refusal(transactional_id: str | None, acks: int) -> KafkaError | None:
    if transactional_id is not None:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not supported; leave transactional.id unset")
    if acks not in (-1, 0, 1):
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    return None


def _append(node: Node, topic: str, index: int, records: memoryview | None, acks: int, version: int) -> bytes:
    log, leader_epoch = node.led_log(topic, index)
    if acks == -1 and log.config.min_insync_replicas > 1:
        _check_in_sync(node, topic, index, log.config.min_insync_replicas)
    if not records:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a produce request needs exactly one record batch for each partition"
        )
    done = log.append(records, leader_epoch=leader_epoch)
    return _result(
        version, index, ErrorCode.NONE, done.base_offset, done.log_append_time_ms, done.log_start_offset, None
    )


def _check_in_sync(node: Node, topic: str, index: int, wanted: int) -> None:
    """No more replicas can be in sync than the partition has (KIP-966); only the leader's is until there are others."""
    replicas = len(node.image.topics[topic].partitions[index].replicas)
    if min(wanted, replicas) > 1:
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"min.insync.replicas asks for {wanted} replicas, only the leader's is there"
        )


def _result(
    version: int, index: int, code: int, base_offset: int, append_time_ms: int, log_start: int, message: str | None
) -> bytes:
    if version < 5:
        return _RESULT_V2.pack(index, code, base_offset, append_time_ms)
    fixed = _RESULT_V5.pack(index, code, base_offset, append_time_ms, log_start)
    if version < 8:
        return fixed
    if version == 8:
        return fixed + (_OK_TAIL_V8 if message is None else b"\x00\x00\x00\x00" + nullable_string(message, False))
    return fixed + (_OK_TAIL_V9 if message is None else b"\x01" + nullable_string(message, True) + b"\x00")
