"""The results of a Produce answer, versions 3 to 13, packed by hand: the product's hot path. Pure.

From version 10 on, a client that sends a partition to the wrong broker gets the partition's leader (KIP-951).
"""

from collections.abc import Sequence
from struct import Struct
from uuid import UUID

from broker_runtime.apis.fetch.current_leaders import OF_PRODUCE, CurrentLeaders, reports_leader
from broker_runtime.apis.request.call import Call
from broker_runtime.errors import KafkaError, RecordsRefusedError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.storage.log.log_transactions import AppendResult
from broker_runtime.wire.encoding.writer import array_length, nullable_string
from kafka_bytes.uuids import encode_uuid

_INDEX = Struct(">i")
_RESULT_V2 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_RECORD_ERRORS_SINCE, _LEADERS_SINCE = 8, 10
_NO_TIMESTAMP = -1
_OK_TAIL_V8 = b"\x00\x00\x00\x00\xff\xff"
_OK_TAIL_V9 = b"\x01\x00\x00"
_OK_TAILS = (b"",) * _RECORD_ERRORS_SINCE + (_OK_TAIL_V8,) + (_OK_TAIL_V9,) * 5
"""The end of a successful result by version: no record errors, no message, no tagged fields."""
_TAIL = Struct(">i")
_FLEXIBLE_TAIL = Struct(">ix")


def tail(throttle_ms: int, flexible: bool) -> bytes:
    """Return the bytes of a Produce answer that follow the results."""
    return (_FLEXIBLE_TAIL if flexible else _TAIL).pack(throttle_ms)


def success(version: int, index: int, done: AppendResult) -> bytes:
    base_offset, _, append_time_ms, log_start = done
    if version >= 5:
        return _RESULT_V5.pack(index, 0, base_offset, append_time_ms, log_start) + _OK_TAILS[version]
    return _RESULT_V2.pack(index, 0, base_offset, append_time_ms)


class Refused:
    """The failed partitions of one Produce request. Created for the first failure, because failures are rare."""

    __slots__ = ("_answer", "_call", "_leaders", "why")

    def __init__(self, answer: list[bytes], call: Call, image: MetadataImage) -> None:
        """`answer` has the pieces of the answer."""
        self._answer, self._call = answer, call
        self._leaders = CurrentLeaders(image, call.listener, OF_PRODUCE)
        self.why = ""
        """Text of the last error. The exception itself is not kept, because its frames refer to this object."""

    def add(self, place: int, topic: str | UUID, index: int, error: KafkaError) -> None:
        """Pack the partition's error into the answer, and add the error to the facts for observers of the call."""
        call = self._call
        call.error, self.why = error.code, str(error)
        if call.partitions is not None:
            name = topic if isinstance(topic, str) else encode_uuid(topic)
            call.partitions.append((name, index, 0, -1, -1, -1, -1, -1, error.code))
        packed = _failure(call.version, index, error)
        if call.version >= _LEADERS_SINCE and reports_leader(error.code):
            packed = packed[:-1] + self._leaders.partition_tags(topic, index)
        self._answer[place] = packed

    def add_all(self, appends: Sequence[tuple[int, str | UUID, int, object]], error: KafkaError) -> None:
        """Pack the same refusal for each partition of the request."""
        for place, topic, index, _ in appends:
            self.add(place, topic, index, error)

    def tail(self) -> bytes:
        """Return the bytes of the answer that follow the results. Call this after the last result."""
        if self._call.version < _LEADERS_SINCE:
            return tail(self._call.throttle_ms, self._call.flexible)
        return _TAIL.pack(self._call.throttle_ms) + self._leaders.answer_tags()


def _failure(version: int, index: int, error: KafkaError) -> bytes:
    result = _refused(version, index, error.code, error.message)
    if isinstance(error, RecordsRefusedError) and version >= _RECORD_ERRORS_SINCE:
        fixed = _RESULT_V5.size
        return result[:fixed] + _record_errors(version, error) + result[fixed + len(array_length(0, version > 8)) :]
    return result


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
