"""Produce (0), versions 3 to 12: the product's hot path.

The header was parsed once; the fixed fields are read with struct from the frame; the record bytes go from the frame
to the log as they came (one checksum, one append) and one reply is joined from a few packed pieces.

- acks 0 gets no reply; an error then ends the connection, which is all a client can notice (as Kafka does).
- acks -1 (all) needs min.insync.replicas before the append, and is answered when the high watermark has passed its
  records: at once where the leader is the only in-sync replica, else by `_Wait`.
- Where flush.messages asks for a sync before records count, acks 1 waits for it too, however long it takes: the event
  loop does not.
- Versions 0-2 are advertised for old librdkafka (KIP-896) but refused.
- Compressed and long batches whose records have to be looked at are appended once another thread has done so.
- Not implemented: transactions (a transactional id is answered with INVALID_TXN_STATE), throttling, KIP-951.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.apis.record_checks import Unchecked, look_aside
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError, RecordsRefusedError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.batch import TIMESTAMPS, TIMESTAMPS_AT
from broker_runtime.storage.log import AppendResult, Log
from broker_runtime.storage.record_check import check_records, is_quick
from broker_runtime.storage.validation import check_batch
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import NO_REPLY, PendingReply, Reply
from broker_runtime.wire.versions import PRODUCE
from broker_runtime.wire.writer import array_length, nullable_string

_ACKS_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">i")
_RESULT_V2 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_RECORD_ERRORS_SINCE = 8
_NO_TIMESTAMP = -1
_NO_THROTTLE = b"\x00\x00\x00\x00"
_OK_TAIL_V8 = b"\x00\x00\x00\x00\xff\xff"
_OK_TAIL_V9 = b"\x01\x00\x00"
_OK_TAILS = (b"",) * _RECORD_ERRORS_SINCE + (_OK_TAIL_V8,) + (_OK_TAIL_V9,) * 4
"""By version: no record errors, no message, no tagged fields."""


class _Waiting(NamedTuple):
    """A partition whose records are appended, and whose place in the reply waits for the disk or for other replicas."""

    place: int
    leader: LeaderReplica
    leader_epoch: int
    partition: int
    done: AppendResult


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | PendingReply:
    version, flexible = call.version, call.flexible
    end = b"\x00" if flexible else b""
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.fixed(_ACKS_TIMEOUT)
    call.acks = acks
    refusal = _refusal(transactional_id, acks)
    topics_at = reader.position
    topics = reader.array_length()
    out = [] if topics else [reader.since(topics_at)]
    failed: tuple[str, str] | None = None
    waiting: list[_Waiting] = []
    unchecked: list[Unchecked] = []
    for _ in range(topics):
        name = reader.string()
        partitions = reader.array_length()
        # In the answer all that stands before a partition's result is the same.
        out.append(reader.since(topics_at))
        for _ in range(partitions):
            (index,) = reader.fixed(_PARTITION)
            records = reader.nullable_bytes()
            reader.end_struct()
            try:
                if refusal is not None:
                    raise refusal
                leader = context.led(name, index)
                if leader.log.config.checks_records and _takes_long(records, leader, context):
                    unchecked.append(Unchecked(len(out), name, index, bytes(records or b""), leader.log.config))
                    out.append(b"")
                    continue
                done = _append(call, leader, records)
                if _safe_below(leader, acks) <= done.last_offset:
                    waiting.append(_Waiting(len(out), leader, leader.leader_epoch, index, done))
                out.append(_success(version, index, done))
            except KafkaError as error:
                failed = _refused_without_reply(error)
                out.append(_failed(call, name, index, error))
        reader.end_struct()
        topics_at = reader.position
        out.append(end)
    if acks == 0 and failed is not None:
        raise ProtocolError(*failed)
    out += (_NO_THROTTLE if not call.throttle_ms else call.throttle_ms.to_bytes(4, "big"), end)
    if unchecked:
        return _WhenChecked(out, unchecked, waiting, call, context, acks, timeout_ms).call
    if acks == 0:
        return NO_REPLY
    if waiting:
        return _Wait(out, waiting, call.later(), _timer(acks, timeout_ms, context)).call
    return call.packed(b"".join(out))


def _safe_below(leader: LeaderReplica, acks: int) -> int:
    """Records below this offset are as safe as was asked for."""
    return leader.log.high_watermark if acks == -1 else leader.log.counted_end


def _timer(acks: int, timeout_ms: int, context: BrokerContext) -> tuple[BrokerContext, float] | None:
    return None if acks == 1 else (context, max(timeout_ms, 0) / 1000)


def _takes_long(records: memoryview | None, leader: LeaderReplica, context: BrokerContext) -> bool:
    """Whether another thread should look at these records; others are looked at, and refused, here."""
    if not records:
        return False
    config = leader.log.config
    check_batch(records, config, context.clock.wall_ms())
    if not is_quick(records):
        return True
    check_records(records, config, len(records), f"{leader.topic}-{leader.index}")
    return False


class _WhenChecked:
    """Appends what another thread has looked at, and answers as for all other requests."""

    def __init__(
        self,
        out: list[bytes],
        unchecked: Sequence[Unchecked],
        waiting: list[_Waiting],
        call: Call,
        context: BrokerContext,
        acks: int,
        timeout_ms: int,
    ) -> None:
        self._out, self._waiting, self._context = out, waiting, context
        self._acks, self._timeout_ms = acks, timeout_ms
        self._failed: tuple[str, str] | None = None
        # Who goes away is not answered; its records are appended, as if it had gone a moment later.
        self.call = call.later()
        look_aside(unchecked, context, call, self._append, self._finish)

    def _append(self, item: Unchecked, refused: KafkaError | None) -> None:
        version = self.call.version
        try:
            if refused is not None:
                raise refused
            leader = self._context.led(item.topic, item.partition)
            done = _append(self.call, leader, memoryview(item.records))
            if _safe_below(leader, self._acks) <= done.last_offset:
                self._waiting.append(_Waiting(item.place, leader, leader.leader_epoch, item.partition, done))
            self._out[item.place] = _success(version, item.partition, done)
        except KafkaError as error:
            self._failed = _refused_without_reply(error)
            self._out[item.place] = _failed(self.call, item.topic, item.partition, error)

    def _finish(self) -> None:
        if self._failed is not None and self._acks == 0:
            self.call.refuse(*self._failed)
        elif self._acks == 0:
            self.call.complete(NO_REPLY)
        elif self._waiting and not self.call.done:
            _Wait(self._out, self._waiting, self.call, _timer(self._acks, self._timeout_ms, self._context))
        else:
            self.call.complete(self.call.packed(b"".join(self._out)))


class _Wait:
    """Answers when no partition of a request waits any more: its records are as safe as was asked for, or never will be
    as another broker leads or the disk has failed. With acks=all, for as many seconds as the timer says at most."""

    __slots__ = ("_for_all", "_left", "_out", "_timer", "_undo", "_waiting", "call")

    def __init__(
        self, out: list[bytes], waiting: Sequence[_Waiting], call: Call, timer: tuple[BrokerContext, float] | None
    ) -> None:
        self._out = out
        self._waiting = waiting
        self._for_all = timer is not None
        self.call = call
        call.on_cancel = self._stop
        self._timer = None if timer is None else timer[0].call_later(timer[1], call.guarded(self._answer))
        is_over = call.guarded(self._one_less)
        # Of what came about with the append, or while another batch was looked at, nobody will be told any more.
        open_ones = [item for item in waiting if self._is_open(item)]
        self._left = len(open_ones)
        self._undo = [self._wait_for(item.leader.log, item.done.last_offset, is_over) for item in open_ones]
        if not open_ones:
            self._answer()

    def _is_open(self, item: _Waiting) -> bool:
        leader, log = item.leader, item.leader.log
        is_safe = (log.high_watermark if self._for_all else log.counted_end) > item.done.last_offset
        return not is_safe and log.failure is None and leader.leader_epoch == item.leader_epoch

    def _wait_for(self, log: Log, last_offset: int, is_over: Callable[[], None]) -> Callable[[], None]:
        return (log.add_waiter if self._for_all else log.add_sync_waiter)(last_offset, is_over)

    def _one_less(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._answer()

    def _answer(self) -> None:
        self._stop()
        for item in self._waiting:
            error = self._not_done(item)
            if error is not None:
                self._out[item.place] = _failed(self.call, item.leader.topic, item.partition, error)
        self.call.complete(self.call.packed(b"".join(self._out)))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        undo_all, self._undo = self._undo, []
        for undo in undo_all:
            undo()

    def _not_done(self, item: _Waiting) -> KafkaError | None:
        leader, log = item.leader, item.leader.log
        if leader.leader_epoch != item.leader_epoch:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition now")
        if (log.high_watermark if self._for_all else log.counted_end) <= item.done.last_offset:
            if log.failure is not None:
                return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the in-sync replicas did not have the records in time")
        if self._for_all and len(leader.isr) < _needed(leader):
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "fewer than min.insync.replicas replicas have the records"
            )
        return None


def _refusal(transactional_id: str | None, acks: int) -> KafkaError | None:
    if transactional_id is not None:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not supported; leave transactional.id unset")
    if acks not in (-1, 0, 1):
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
    return None


def _refused_without_reply(failed: KafkaError) -> tuple[str, str]:
    """As what the connection's end is counted, and why it ends."""
    return "acks-0-failed", f"a produce request with acks=0 failed: {failed}"


def _append(call: Call, leader: LeaderReplica, records: memoryview | None) -> AppendResult:
    if call.acks == -1 and len(leader.isr) < _needed(leader):
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{leader.topic}-{leader.index} has {len(leader.isr)} in-sync replicas, min.insync.replicas asks for more",
        )
    if not records:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a produce request needs exactly one record batch for each partition"
        )
    done = leader.log.append(records, leader_epoch=leader.leader_epoch)
    if call.partitions is not None:
        base, last = done.base_offset, done.last_offset
        times_ms = TIMESTAMPS.unpack_from(records, TIMESTAMPS_AT)
        call.partitions.append((leader.topic, leader.index, len(records), last - base + 1, base, last, *times_ms, 0))
    return done


def _failed(call: Call, topic: str, index: int, error: KafkaError) -> bytes:
    """The part of the answer that is about this partition."""
    call.error = error.code
    if call.partitions is not None:
        # It may have been appended, and waited for other replicas in vain.
        others = [facts for facts in call.partitions if facts[:2] != (topic, index)]
        call.partitions = [*others, (topic, index, 0, -1, -1, -1, -1, -1, error.code)]
    return _failure(call.version, index, error)


def _needed(leader: LeaderReplica) -> int:
    """No more replicas can be in sync than the partition has (KIP-966)."""
    return min(leader.log.config.min_insync_replicas, len(leader.replicas))


def _success(version: int, index: int, done: AppendResult) -> bytes:
    base_offset, _, append_time_ms, log_start = done
    if version >= 5:
        return _RESULT_V5.pack(index, 0, base_offset, append_time_ms, log_start) + _OK_TAILS[version]
    return _RESULT_V2.pack(index, 0, base_offset, append_time_ms)


def _failure(version: int, index: int, error: KafkaError) -> bytes:
    result = _refused(version, index, error.code, error.message)
    if isinstance(error, RecordsRefusedError) and version >= _RECORD_ERRORS_SINCE:
        fixed = _RESULT_V5.size
        return result[:fixed] + _record_errors(version, error) + result[fixed + len(array_length(0, version > 8)) :]
    return result


def _record_errors(version: int, error: RecordsRefusedError) -> bytes:
    flexible = version > _RECORD_ERRORS_SINCE
    end = b"\x00" if flexible else b""
    each = [_PARTITION.pack(index) + nullable_string(text, flexible) + end for index, text in error.records]
    return array_length(len(each), flexible) + b"".join(each)


def _refused(version: int, index: int, code: int, message: str | None) -> bytes:
    if version < 5:
        return _RESULT_V2.pack(index, code, -1, _NO_TIMESTAMP)
    fixed = _RESULT_V5.pack(index, code, -1, _NO_TIMESTAMP, -1)
    if version < _RECORD_ERRORS_SINCE or message is None:
        return fixed + _OK_TAILS[version]
    flexible = version > _RECORD_ERRORS_SINCE
    return fixed + array_length(0, flexible) + nullable_string(message, flexible) + (b"\x00" if flexible else b"")


API = ApiSpec(key=PRODUCE, name="Produce", versions=(3, 12), handle=handle, reads="frame")
