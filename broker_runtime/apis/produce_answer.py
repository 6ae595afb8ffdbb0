"""The results of a Produce answer, versions 3 to 12, packed by hand: the product's hot path. Pure."""

from struct import Struct

from broker_runtime.apis.call import Call
from broker_runtime.errors import KafkaError, RecordsRefusedError
from broker_runtime.storage.log import AppendResult
from broker_runtime.wire.writer import array_length, nullable_string

_INDEX = Struct(">i")
_RESULT_V2 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_RECORD_ERRORS_SINCE = 8
_NO_TIMESTAMP = -1
_OK_TAIL_V8 = b"\x00\x00\x00\x00\xff\xff"
_OK_TAIL_V9 = b"\x01\x00\x00"
_OK_TAILS = (b"",) * _RECORD_ERRORS_SINCE + (_OK_TAIL_V8,) + (_OK_TAIL_V9,) * 4
"""By version: no record errors, no message, no tagged fields."""
_TAIL = Struct(">i")
_FLEXIBLE_TAIL = Struct(">ix")


def tail(throttle_ms: int, flexible: bool) -> bytes:
    """What follows the results."""
    return (_FLEXIBLE_TAIL if flexible else _TAIL).pack(throttle_ms)


def success(version: int, index: int, done: AppendResult) -> bytes:
    base_offset, _, append_time_ms, log_start = done
    if version >= 5:
        return _RESULT_V5.pack(index, 0, base_offset, append_time_ms, log_start) + _OK_TAILS[version]
    return _RESULT_V2.pack(index, 0, base_offset, append_time_ms)


def failure(version: int, index: int, error: KafkaError) -> bytes:
    result = _refused(version, index, error.code, error.message)
    if isinstance(error, RecordsRefusedError) and version >= _RECORD_ERRORS_SINCE:
        fixed = _RESULT_V5.size
        return result[:fixed] + _record_errors(version, error) + result[fixed + len(array_length(0, version > 8)) :]
    return result


def failed_partition(call: Call, topic: str, index: int, error: KafkaError) -> bytes:
    """The part of an answer that is about this partition, which whoever observes the call is told of."""
    call.error = error.code
    if call.partitions is not None:
        call.partitions.append((topic, index, 0, -1, -1, -1, -1, -1, error.code))
    return failure(call.version, index, error)


def _record_errors(version: int, error: RecordsRefusedError) -> bytes:
    flexible = version > _RECORD_ERRORS_SINCE
    end = b"\x00" if flexible else b""
    each = [_INDEX.pack(index) + nullable_string(text, flexible) + end for index, text in error.records]
    return array_length(len(each), flexible) + b"".join(each)


def _refused(version: int, index: int, code: int, message: str | None) -> bytes:
    if version < 5:
        return _RESULT_V2.pack(index, code, -1, _NO_TIMESTAMP)
    fixed = _RESULT_V5.pack(index, code, -1, _NO_TIMESTAMP, -1)
    if version < _RECORD_ERRORS_SINCE or message is None:
        return fixed + _OK_TAILS[version]
    flexible = version > _RECORD_ERRORS_SINCE
    return fixed + array_length(0, flexible) + nullable_string(message, flexible) + (b"\x00" if flexible else b"")
