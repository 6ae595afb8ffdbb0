"""ListOffsets (2), versions 1 to 11: earliest, latest, by time, and the offset of the largest timestamp (KIP-734).

There is no tiered storage. So the earliest local offset (-4) equals the earliest one. The offsets of the last tiered
record (-5, KIP-1005) and of the first record to be tiered (-6, KIP-1023) are unknown. The timeout of KIP-1075 is not
used, because nothing has to be fetched from remote storage.

Searching for a time reads the disk, in another thread if it reads more than a few KB. A partition that is named more
than once is refused, as in Kafka. A newly elected leader does not know the high watermark until its followers have
fetched (KIP-207). Followers get the log's end instead of the high watermark, and clients that read committed records
get the last stable offset (KIP-98).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps, counted, drain, each, flattened, let_go
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.time_search import FoundRecord, Search, Step, first_since, newest
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ListOffsetsPartition, ListOffsetsRequest
from broker_runtime.wire.versions import LIST_OFFSETS

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NOT_OF_THE_NEWEST = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
"""Timestamps whose answer does not depend on the high watermark."""
UNKNOWN = -1
_EPOCH_SINCE = 4
_ISOLATION_SINCE = 2
READ_COMMITTED = 1
"""The isolation level of a client that reads committed records only."""
_SEARCHES_PER_SLICE = 10
"""Searches per slice. On the event loop each reads an index and a few KB: some tens of microseconds, at most 0.2 ms."""


@dataclass(slots=True)
class _Answer:
    """The answer for one partition."""

    partition_index: int
    error_code: int = ErrorCode.NONE
    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN

    def fields(self) -> Fields:
        return {
            "partition_index": self.partition_index,
            "error_code": self.error_code,
            "timestamp": self.timestamp,
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
        }


def _named(request: ListOffsetsRequest) -> Steps[list[tuple[str, int]]]:
    return flattened(((topic.name, part.partition_index) for part in topic.partitions) for topic in request.topics)


def handle(request: ListOffsetsRequest, call: Call, context: BrokerContext) -> Steps[Fields | Awaitable[Steps[Fields]]]:
    named = yield from counted((yield from _named(request)))
    end_of, access = _end_for(request, call.version), call.access
    searches: list[_PartitionSearch] = []
    topics: list[tuple[str, list[_Answer]]] = []
    for topic in request.topics:
        answers = []
        for part in topic.partitions:
            answer = _Answer(part.partition_index)
            answers.append(answer)
            try:
                if access is not None:
                    access.require_topic(topic.name)
                if named[topic.name, part.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition occurs twice in the request")
                search = _answer(answer, topic.name, part, end_of, call, context)
            except KafkaError as error:
                answer.error_code = error.code
            else:
                if search is not None:
                    searches.append(search)
            yield
        yield
        topics.append((topic.name, answers))
    yield from drain(named)
    first, rest = searches[:_SEARCHES_PER_SLICE], searches[_SEARCHES_PER_SLICE:]
    waiting = _continue_searches(first, context)
    if waiting or rest:
        return _searched(topics, waiting, rest, context, call.completion.slices)
    return (yield from _reply(topics))


def _end_for(request: ListOffsetsRequest, version: int) -> "_EndOf":
    """Return the function for the end of the records that the client may read."""
    if request.replica_id >= 0:
        return _log_end
    is_committed = version >= _ISOLATION_SINCE and request.isolation_level == READ_COMMITTED
    return _last_stable_offset if is_committed else _high_watermark


def _log_end(log: Log) -> int:
    return log.log_end_offset


def _high_watermark(log: Log) -> int:
    return log.high_watermark


def _last_stable_offset(log: Log) -> int:
    return log.last_stable_offset


_EndOf = Callable[[Log], int]


def _reply(topics: list[tuple[str, list[_Answer]]]) -> Steps[Fields]:
    """Return the answer's fields. Empties `topics` in steps."""
    found = []
    topics.reverse()
    while topics:
        name, answers = topics.pop()
        found.append({"name": name, "partitions": (yield from each(answers, _Answer.fields))})
        yield from let_go(answers)
        yield
    return {"topics": found}


def _answer(
    answer: _Answer, topic: str, part: ListOffsetsPartition, end_of: _EndOf, call: Call, context: BrokerContext
) -> "_PartitionSearch | None":
    """Fill in `answer` if the offset is known. Otherwise return a search for the time. Raises KafkaError."""
    leader = context.led(topic, part.partition_index)
    log, wanted = leader.log, part.timestamp
    check_epoch(part.current_leader_epoch if call.version >= _EPOCH_SINCE else UNKNOWN, leader.leader_epoch)
    is_new = end_of is not _log_end and log.high_watermark < leader.start_offset
    if wanted not in _NOT_OF_THE_NEWEST and is_new:
        code = ErrorCode.OFFSET_NOT_AVAILABLE if call.version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
        raise KafkaError(code, "the new leader does not know its high watermark yet")
    if wanted < 0 and call.version < _SINCE_VERSION.get(wanted, call.version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {wanted} is not defined in version {call.version}")
    if wanted in (LATEST, EARLIEST, EARLIEST_LOCAL):
        answer.offset = end_of(log) if wanted == LATEST else log.log_start_offset
        answer.leader_epoch = leader.leader_epoch
        return None
    if wanted in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    limit = context.settings.config.sluicegate_record_validation_max_bytes
    search = newest(log, limit) if wanted == MAX_TIMESTAMP else first_since(log, wanted, limit)
    return _PartitionSearch(answer, topic, leader, leader.leader_epoch, end_of, search)


async def _searched(
    topics: list[tuple[str, list[_Answer]]],
    waiting: Sequence["_PartitionSearch"],
    rest: Sequence["_PartitionSearch"],
    context: BrokerContext,
    slices: Slices,
) -> Steps[Fields]:
    await _search(waiting, context)
    for number in range(0, len(rest), _SEARCHES_PER_SLICE):
        await slices.next_slice()
        await _search(_continue_searches(rest[number : number + _SEARCHES_PER_SLICE], context), context)
    return _reply(topics)


async def _search(waiting: Sequence["_PartitionSearch"], context: BrokerContext) -> None:
    """Run the steps of the searches in another thread until all have ended."""
    while waiting:
        try:
            await context.offload(partial(_run_steps, waiting))
        except KafkaError as error:
            for search in waiting:
                search.fail(error)
            return
        waiting = _continue_searches(waiting, context)


def _continue_searches(searches: Sequence["_PartitionSearch"], context: BrokerContext) -> Sequence["_PartitionSearch"]:
    """Continue the searches. Returns those that have another step to run."""
    return [search for search in searches if search.resume(context)]


def _run_steps(searches: Sequence["_PartitionSearch"]) -> None:
    for search in searches:
        search.run_step()


@dataclass(slots=True)
class _PartitionSearch:
    """Searches for a time in one partition, step by step, and fills in its part of the reply."""

    answer: _Answer
    topic: str
    leader: LeaderReplica
    leader_epoch: int
    end_of: _EndOf
    search: Search
    step: Step | None = None
    found: FoundRecord | None = None
    refused: KafkaError | None = None

    def run_step(self) -> None:
        """Run the next step of the search. Called in another thread."""
        if self.step is not None:
            try:
                self.found = self.step()
            except KafkaError as error:
                self.refused = detached(error)
            except OSError as error:
                self.refused = self._unreadable(error)

    def _unreadable(self, error: OSError) -> KafkaError:
        return self.leader.log.files.health.failure("read", error)

    def resume(self, context: BrokerContext) -> bool:
        """Continue the search with the result of the last step. Returns whether there is another step to run."""
        if self.refused is not None:
            self.fail(self.refused)
            return False
        try:
            self.step = next(self.search) if self.step is None else self.search.send(self.found)
        except StopIteration as ended:
            self._fill_in(ended.value, context)
        except OSError as error:
            self.fail(self._unreadable(error))
        except KafkaError as error:
            self.fail(error)
        else:
            return True
        return False

    def _fill_in(self, found: FoundRecord | None, context: BrokerContext) -> None:
        """Fill in the answer, unless the leader has changed: then the record found may have been truncated."""
        log = self.leader.log
        try:
            leader = context.led(self.topic, self.answer.partition_index)
            # A topic that was deleted and created again has a different leader object with the same epoch.
            if leader is not self.leader or leader.leader_epoch != self.leader_epoch:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a new leader was elected during the search")
        except KafkaError as error:
            self.fail(error)
            return
        if found is not None and found.offset < self.end_of(log):
            self.answer.offset, self.answer.timestamp, self.answer.leader_epoch = found

    def fail(self, error: KafkaError) -> None:
        self.answer.error_code = error.code


def check_epoch(known: int, current: int) -> None:
    """Check the leader epoch that the client knows (KIP-320).

    Raises KafkaError if `known` is older or newer than `current`: the client must refresh its metadata.
    """
    if known >= 0 and known != current:
        code = ErrorCode.FENCED_LEADER_EPOCH if known < current else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"the leader epoch is {current}")


API = ApiSpec(key=LIST_OFFSETS, name="ListOffsets", versions=(1, 11), handle=handle)
