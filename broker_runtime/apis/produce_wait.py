"""Appended batches whose answer waits: until they are synced (acks=1), or all in-sync replicas have them (acks=all)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import BrokerContext
from broker_runtime.apis.produce_answer import Refused
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.storage.log import AppendResult, Log


class Waiting(NamedTuple):
    """A partition whose records are appended, and whose place in the reply waits for the disk or for other replicas."""

    place: int
    leader: LeaderReplica
    leader_epoch: int
    partition: int
    done: AppendResult


def safe_below(leader: LeaderReplica, acks: int) -> int:
    """Records below this offset are as safe as was asked for."""
    return leader.log.high_watermark if acks == -1 else leader.log.counted_end


class ProduceWait:
    """Answers when no partition of a request waits any more: its records are as safe as was asked for, or never will be
    as another broker leads or the disk has failed. With acks=all, for as many seconds as the timer says at most."""

    __slots__ = ("_context", "_for_all", "_left", "_out", "_refused", "_timer", "_undo", "_waiting", "call")

    def __init__(
        self,
        out: list[bytes],
        waiting: Sequence[Waiting],
        call: Call,
        context: BrokerContext,
        timeout_s: float | None,
        refused: Refused | None,
    ) -> None:
        """Without `timeout_s` only the disk is waited for; `refused` are partitions that failed before."""
        self._out, self._waiting = out, waiting
        self._context, self._refused = context, refused
        self._for_all = timeout_s is not None
        self.call = call
        call.on_cancel = self._stop
        self._timer = None if timeout_s is None else context.call_later(timeout_s, call.guarded(self._answer))
        is_over = call.guarded(self._one_less)
        # Of what came about with the append, or while another batch was looked at, nobody will be told any more.
        open_ones = [item for item in waiting if self._is_open(item)]
        self._left = len(open_ones)
        self._undo = [self._wait_for(item.leader.log, item.done.last_offset, is_over) for item in open_ones]
        if not open_ones:
            self._answer()

    def _is_open(self, item: Waiting) -> bool:
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
        call = self.call
        failed = [(item, error) for item in self._waiting if (error := self._not_done(item)) is not None]
        if failed and call.partitions is not None:
            in_vain = {(item.leader.topic, item.partition) for item, _ in failed}
            call.partitions = [facts for facts in call.partitions if facts[:2] not in in_vain]
        if failed:
            self._refuse(failed)
        call.complete(call.packed(b"".join(self._out)))

    def _refuse(self, failed: Sequence[tuple[Waiting, KafkaError]]) -> None:
        out = self._out
        refused = self._refused or Refused(out, self.call, self._context.image)
        for item, error in failed:
            refused.add(item.place, item.leader.topic, item.partition, error)
        out[-1] = refused.tail()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        undo_all, self._undo = self._undo, []
        for undo in undo_all:
            undo()

    def _not_done(self, item: Waiting) -> KafkaError | None:
        leader, log = item.leader, item.leader.log
        if leader.leader_epoch != item.leader_epoch:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition now")
        if (log.high_watermark if self._for_all else log.counted_end) <= item.done.last_offset:
            if log.failure is not None:
                return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the in-sync replicas did not have the records in time")
        if self._for_all and leader.is_under_min_isr:
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "fewer than min.insync.replicas replicas have the records"
            )
        return None
