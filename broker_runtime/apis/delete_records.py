"""DeleteRecords (21), versions 0 to 2 (KIP-107): moves the log start offset; -1 means up to the high watermark.

One write beside the event loop notes the new starts of all partitions of a request. Answered when that is done and
every replica that lives or may lead has the new start, so that no later leader serves the records again. With the
request's time-out the answer is REQUEST_TIMED_OUT: they are deleted here, and followers hear of it when they can.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DeleteRecordsPartition, DeleteRecordsRequest
from broker_runtime.wire.versions import DELETE_RECORDS

_HIGH_WATERMARK = -1
_INVALID_LOW_WATERMARK = -1


@dataclass(slots=True)
class _Deletion:
    """Of one partition, in one leader epoch, up to `before`."""

    leader: LeaderReplica
    leader_epoch: int
    before: int
    low_watermark: int
    """As it was when the records were deleted here."""

    @property
    def waits(self) -> bool:
        return self.leader.leader_epoch == self.leader_epoch and self.leader.low_watermark < self.before

    def outcome(self) -> tuple[ErrorCode, int]:
        if self.leader.leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, _INVALID_LOW_WATERMARK
        if self.waits:
            return ErrorCode.REQUEST_TIMED_OUT, self.low_watermark
        return ErrorCode.NONE, self.leader.low_watermark


class _Noting:
    """The write of the new starts: over or not, and why it failed."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.error: Exception | None = None

    def done(self, error: Exception | None) -> None:
        self.error = None if error is None else detached(error)
        self.over.set()


_Outcomes = Sequence[tuple[str, Sequence[tuple[int, _Deletion | KafkaError]]]]


def handle(request: DeleteRecordsRequest, call: Call, context: BrokerContext) -> Fields | Awaitable[Fields]:
    with context.logs.log_starts.gathered():
        outcomes = [
            (topic.name, [(part.partition_index, _delete(topic.name, part, context)) for part in topic.partitions])
            for topic in request.topics
        ]
    noting = _Noting()
    context.logs.log_starts.write_soon(noting.done)
    waiting = [done for _, parts in outcomes for _, done in parts if isinstance(done, _Deletion) and done.waits]
    if not waiting and noting.over.is_set():
        return _answer(_unless_failed(outcomes, noting.error))
    return _answer_later(outcomes, waiting, noting, request.timeout.total_seconds())


def _unless_failed(outcomes: _Outcomes, error: Exception | None) -> _Outcomes:
    """A power loss could bring back what nobody has noted to be deleted."""
    if error is None:
        return outcomes
    failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the new log starts are not noted: {error}")
    return [
        (name, [(index, failed if isinstance(done, _Deletion) else done) for index, done in parts])
        for name, parts in outcomes
    ]


def _delete(topic: str, part: DeleteRecordsPartition, context: BrokerContext) -> _Deletion | KafkaError:
    try:
        leader = context.led(topic, part.partition_index)
        log = leader.log
        if "delete" not in log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted only; records cannot be deleted")
        before = log.high_watermark if part.offset == _HIGH_WATERMARK else part.offset
        log.delete_records(before)
        return _Deletion(leader, leader.leader_epoch, before, leader.low_watermark)
    except KafkaError as error:
        return detached(error)


async def _answer_later(outcomes: _Outcomes, waiting: Sequence[_Deletion], noting: _Noting, timeout_s: float) -> Fields:
    # This runs a little later than the handler: some may have what they waited for.
    waiting = [each for each in waiting if each.waits]
    left = len(waiting)
    all_over = asyncio.Event()
    if not left:
        all_over.set()

    def one_less() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            all_over.set()

    undo = [each.leader.wait_for_deletion(each.before, one_less) for each in waiting]
    try:
        async with asyncio.timeout(max(timeout_s, 0)):
            await all_over.wait()
    except TimeoutError:
        pass
    finally:
        for take_back in undo:
            take_back()
    await noting.over.wait()
    return _answer(_unless_failed(outcomes, noting.error))


def _answer(outcomes: _Outcomes) -> Fields:
    return {
        "topics": [
            {"name": name, "partitions": [_partition(index, done) for index, done in parts]} for name, parts in outcomes
        ]
    }


def _partition(index: int, done: _Deletion | KafkaError) -> Fields:
    code, low_watermark = (done.code, _INVALID_LOW_WATERMARK) if isinstance(done, KafkaError) else done.outcome()
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": code}


API = ApiSpec(key=DELETE_RECORDS, name="DeleteRecords", versions=(0, 2), handle=handle)
