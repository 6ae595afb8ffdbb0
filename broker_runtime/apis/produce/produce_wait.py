"""Delays the answer to appended batches until they are synced (acks=1) or on all in-sync replicas (acks=all)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_runtime.apis.produce.produce_answer import Refused
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import BrokerContext
from broker_runtime.apis.request.dispatching.answering import joined
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.steps import Steps, at_once, chosen, let_go
from broker_runtime.storage.log.log_transactions import AppendResult

_AT_ONCE_MAX = 50
"""Maximum number of partitions of a request that is answered without steps."""


class PendingPartition(NamedTuple):
    """A partition with appended records, whose result waits for the disk or for other replicas."""

    place: int
    leader: LeaderReplica
    leader_epoch: int
    partition: int
    done: AppendResult


def safe_below(leader: LeaderReplica, acks: int) -> int:
    """Return the offset below which records are as durable as `acks` requires."""
    return leader.log.high_watermark if acks == -1 else leader.log.counted_end


class ProduceWait:
    """The wait of one Produce request, which is answered when none of its partitions waits any more.

    A partition stops waiting when its records are as durable as required, or never will be because another broker leads
    or the disk has failed. With acks=all the wait ends at the request's timeout.
    """

    __slots__ = (
        "_context",
        "_for_all",
        "_is_answering",
        "_left",
        "_out",
        "_refused",
        "_timer",
        "_undo",
        "_waiting",
        "call",
    )

    def __init__(
        self,
        out: list[bytes],
        waiting: list[PendingPartition],
        call: Call,
        context: BrokerContext,
        timeout_s: float | None,
        refused: Refused | None,
    ) -> None:
        """Create the wait.

        If `timeout_s` is None, it is for the disk only. `refused` has the partitions that have already failed.
        """
        self._out, self._waiting = out, waiting
        self._context, self._refused = context, refused
        self._for_all = timeout_s is not None
        self.call = call
        call.on_cancel = self._stop
        self._timer = None if timeout_s is None else context.call_later(timeout_s, call.guarded(self._answer))
        self._left = 1
        """Number of waiting partitions, plus one while `wait` runs."""
        self._undo: list[Callable[[], None]] = []
        self._is_answering = False

    def wait(self) -> Call:
        """Begin to wait for replicas of the produced records.

        Return the call, which is already complete if there is nothing left to wait for.
        """
        if len(self._waiting) <= _AT_ONCE_MAX:
            is_over = self.call.guarded(self._one_less)
            for item in self._waiting:
                self._wait_for(item, is_over)
            self._one_less()
        else:
            self.call.do(self._wait_in_steps())
        return self.call

    def _wait_in_steps(self) -> Steps[None]:
        is_over = self.call.guarded(self._one_less)
        for item in self._waiting:
            if self._is_answering or self.call.done:
                return
            self._wait_for(item, is_over)
            yield
        self._one_less()

    def _is_open(self, item: PendingPartition) -> bool:
        leader, log = item.leader, item.leader.log
        is_safe = (log.high_watermark if self._for_all else log.counted_end) > item.done.last_offset
        return not is_safe and log.failure is None and leader.leader_epoch == item.leader_epoch

    def _wait_for(self, item: PendingPartition, is_over: Callable[[], None]) -> None:
        # The waiters are not called for progress made by the append itself, or while another batch was checked.
        if self._is_open(item):
            log = item.leader.log
            self._left += 1
            add = log.add_waiter if self._for_all else log.add_sync_waiter
            self._undo.append(add(item.done.last_offset, is_over))

    def _one_less(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._answer()

    def _answer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_answering:
            return
        self._is_answering = True
        if len(self._waiting) > _AT_ONCE_MAX:
            self.call.do(self._answer_in_steps())
        elif any(map(self._not_done, self._waiting)):
            at_once(self._answer_in_steps())
        else:
            self._succeed()

    def _succeed(self) -> None:
        """Answer a request with few partitions, all of which are done: the usual case, without the cost of steps."""
        for take_back in self._undo:
            take_back()
        self._undo.clear()
        self._waiting.clear()
        self.call.complete(self.call.packed(b"".join(self._out)))

    def _answer_in_steps(self) -> Steps[None]:
        call = self.call
        yield from self._take_back()
        failed = yield from chosen(self._waiting, lambda item: self._not_done(item) is not None)
        if failed and call.partitions is not None:
            in_vain = {(item.leader.topic, item.partition) for item in failed}
            call.partitions = yield from chosen(call.partitions, lambda facts: facts[:2] not in in_vain)
        if failed:
            yield from self._refuse(failed)
        call.complete((yield from joined(self._out, call)))
        yield from let_go(self._waiting)

    def _refuse(self, failed: Sequence[PendingPartition]) -> Steps[None]:
        out = self._out
        refused = self._refused or Refused(out, self.call, self._context.image)
        for item in failed:
            error = self._not_done(item)
            if error is not None:
                refused.add(item.place, item.leader.topic, item.partition, error)
            yield
        out[-1] = refused.tail()

    def _take_back(self) -> Steps[None]:
        while self._undo:
            self._undo.pop()()
            yield

    def _stop(self) -> None:
        """Stop waiting because the client has disconnected."""
        if self._timer is not None:
            self._timer.cancel()
        if len(self._undo) <= _AT_ONCE_MAX:
            at_once(self._take_back())
        else:
            self.call.do(self._take_back())

    def _not_done(self, item: PendingPartition) -> KafkaError | None:
        leader, log = item.leader, item.leader.log
        if leader.leader_epoch != item.leader_epoch:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader of the partition has changed")
        if (log.high_watermark if self._for_all else log.counted_end) <= item.done.last_offset:
            if log.failure is not None:
                return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "the in-sync replicas did not get the records before the timeout of the request",
            )
        if self._for_all and leader.is_under_min_isr:
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "fewer than min.insync.replicas replicas have the records"
            )
        return None
