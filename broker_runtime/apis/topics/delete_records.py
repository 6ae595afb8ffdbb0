"""DeleteRecords (21), versions 0 to 2 (KIP-107): moves the log start offset; -1 means up to the high watermark.

One write in another thread stores the new start offsets of all partitions of a request. The answer is sent after the
write, when every replica that is alive or may become leader has the new start offset. So no later leader serves the
records again. After the request's timeout the answer is REQUEST_TIMED_OUT: the records are deleted here, and followers
get the new start offset when they fetch again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps, chosen, each, flattened, let_go
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DeleteRecordsPartition, DeleteRecordsRequest
from broker_runtime.wire.versions import DELETE_RECORDS

_HIGH_WATERMARK = -1
_INVALID_LOW_WATERMARK = -1


@dataclass(slots=True)
class _Deletion:
    """The deletion of one partition's records before the offset `before`, in one leader epoch."""

    leader: LeaderReplica
    leader_epoch: int
    before: int
    low_watermark: int
    """The low watermark when the records were deleted here."""

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
    """The write of the new start offsets: whether it has ended, and its error."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.error: Exception | None = None

    def done(self, error: Exception | None) -> None:
        self.error = None if error is None else detached(error)
        self.over.set()


_Outcomes = list[tuple[str, list[tuple[int, _Deletion | KafkaError]]]]


def handle(
    request: DeleteRecordsRequest, call: Call, context: BrokerContext
) -> Steps[Fields | Awaitable[Steps[Fields]]]:
    outcomes: _Outcomes = []
    access = call.access
    for topic in request.topics:
        done: list[tuple[int, _Deletion | KafkaError]] = []
        for part in topic.partitions:
            # Between two steps other requests may move log starts, which must be written at once.
            with context.logs.log_starts.gathered():
                done.append((part.partition_index, _delete(topic.name, part, context, access)))
            yield
        outcomes.append((topic.name, done))
        yield
    noting = _Noting()
    context.logs.log_starts.write_soon(noting.done)
    waiting = yield from _waiting(outcomes)
    if not waiting and noting.over.is_set():
        return (yield from _answer(outcomes, noting.error))
    return _answer_later(outcomes, waiting, noting, request.timeout.total_seconds(), call.completion.slices)


def _waiting(outcomes: _Outcomes) -> Steps[list[_Deletion]]:
    everything = yield from flattened((done for _, done in parts) for _, parts in outcomes)
    deletions = yield from chosen(everything, lambda done: isinstance(done, _Deletion) and done.waits)
    return cast("list[_Deletion]", deletions)


def _delete(
    topic: str, part: DeleteRecordsPartition, context: BrokerContext, access: Access | None
) -> _Deletion | KafkaError:
    try:
        if access is not None:
            access.require_topic(topic)
        leader = context.led(topic, part.partition_index)
        log = leader.log
        if "delete" not in log.config.cleanup_policy:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the cleanup policy of {topic} is only compact: its records cannot be deleted by request",
            )
        before = log.high_watermark if part.offset == _HIGH_WATERMARK else part.offset
        log.delete_records(before)
        return _Deletion(leader, leader.leader_epoch, before, leader.low_watermark)
    except KafkaError as error:
        return detached(error)


async def _answer_later(
    outcomes: _Outcomes, waiting: Sequence[_Deletion], noting: _Noting, timeout_s: float, slices: Slices
) -> Steps[Fields]:
    # This runs some time after the handler, so some deletions may already be complete.
    waiting = await slices.finish(chosen(waiting, lambda deletion: deletion.waits))
    left = len(waiting)
    all_over = asyncio.Event()
    if not left:
        all_over.set()

    def one_less() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            all_over.set()

    undo: list[Callable[[], None]] = []
    try:
        async with asyncio.timeout(max(timeout_s, 0)):
            await slices.finish(_wait_for(waiting, one_less, undo))
            await all_over.wait()
    except TimeoutError:
        pass
    finally:
        slices.do(each(undo, lambda take_back: take_back()))
    await noting.over.wait()
    return _answer(outcomes, noting.error)


def _wait_for(
    waiting: Sequence[_Deletion], one_less: Callable[[], None], undo: list[Callable[[], None]]
) -> Steps[None]:
    """Register `one_less` for each deletion. Adds a function that unregisters it to `undo`."""
    for deletion in waiting:
        undo.append(deletion.leader.wait_for_deletion(deletion.before, one_less))
        yield


def _answer(outcomes: _Outcomes, error: Exception | None) -> Steps[Fields]:
    """Return the answer.

    `error` fails all deletions: a power loss could restore records whose deletion is not stored.
    """
    failed = None
    if error is not None:
        failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the new log start offsets were not stored: {error}")
    topics = []
    outcomes.reverse()
    while outcomes:
        # Freeing the errors of all partitions at once would take long.
        name, parts = outcomes.pop()
        partitions = yield from each(parts, lambda part: _partition(part, failed))
        yield from let_go(parts)
        topics.append({"name": name, "partitions": partitions})
        yield
    return {"topics": topics}


def _partition(part: tuple[int, _Deletion | KafkaError], failed: KafkaError | None) -> Fields:
    index, done = part
    if failed is not None and isinstance(done, _Deletion):
        done = failed
    code, low_watermark = (done.code, _INVALID_LOW_WATERMARK) if isinstance(done, KafkaError) else done.outcome()
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": code}


API = ApiSpec(key=DELETE_RECORDS, name="DeleteRecords", versions=(0, 2), handle=handle, outlives_client=True)
