"""OffsetCommit (8), versions 2 to 10 (KIP-848 from version 9, topic ids from version 10).

Read and packed by hand, because consumers commit frequently. Many offsets take many iterations of the event loop.

- A topic, id or partition that does not exist gets its own error.
- A retention time in the request, which versions 2 to 4 may contain, is applied.
- A consumer of the push protocol cannot commit an offset beyond the end of a log: OFFSET_OUT_OF_RANGE.
- `groups.offsets` decides everything else. If it refuses the committer, all partitions of the request are refused.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from struct import Struct

from broker_runtime.apis.groups.commit_request import ITEMS, CommitRequest, all_refused, answer_parts, read_topics
from broker_runtime.apis.groups.one_by_one import one_by_one
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.apis.request.many_items import Pace, Packed, chunks, emptied, kept
from broker_runtime.coordination.term import client_error
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.heartbeats import keep_session
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit
from broker_runtime.groups.offsets.delete import CHUNK
from broker_runtime.groups.push.state.log_ends import End
from broker_runtime.groups.service import is_push_group
from broker_runtime.groups.shards.term import GroupDecision
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import OFFSET_COMMIT

_THROTTLE_SINCE = 3
_EPOCH_SINCE = 6
_INSTANCE_SINCE = 7
_BY_ID_SINCE = 10
_RETENTION = range(2, 5)
_INT32, _INT64 = Struct(">i"), Struct(">q")
_AT_ONCE_BYTES_MAX = 3_000
"""Maximum size of a request that is handled at once: about two hundred offsets, never more than `CHUNK`."""


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | Call | Awaitable[Reply]:
    """Answer an OffsetCommit request. Raises ProtocolError if the frame is malformed."""
    if reader.left > _AT_ONCE_BYTES_MAX:
        return _slowly(kept(reader, call), call, context)
    at = reader.position
    request = _read_head(reader, call.version)
    if is_push_group(context.groups, request.group_id):
        reader.position = at
        return _slowly(kept(reader, call), call, context)
    for _ in _topics_of(reader, call, context.image, request):
        pass
    if not request.offsets:
        return _packed(request, (), call)
    try:
        answer = context.groups.term_of(request.group_id).enqueue(_decision(request, request.offsets))
    except KafkaError as error:
        return _packed(request, all_refused(request.offsets, error), call)
    # Nearly all commits take this path. It needs no task, which would take as long as all other work for a commit.
    answer.add_done_callback(partial(_complete, request, call))
    return call.later(partial(_let_go, answer))


def _let_go(answer: asyncio.Future[Sequence[ErrorCode]]) -> None:
    answer.cancel()


def _complete(request: CommitRequest, call: Call, answer: asyncio.Future[Sequence[ErrorCode]]) -> None:
    if answer.cancelled():
        return
    error = answer.exception()
    if error is None:
        call.complete(_packed(request, answer.result(), call))
    elif isinstance(error, KafkaError):
        call.complete(_packed(request, all_refused(request.offsets, client_error(error)), call))
    else:
        call.refuse("handler-failed", f"{call.api.name}: {error!r}")


async def _slowly(reader: RequestReader, call: Call, context: BrokerContext) -> Reply:
    pace, taken = Pace(call), deque[Iterable[ErrorCode]]()
    packed = Packed(pace)
    request = _read_head(reader, call.version)
    for items in _topics_of(reader, call, context.image, request):
        await pace.item(items)
    if request.offsets and is_push_group(context.groups, request.group_id):
        await _refuse_beyond_ends(request, context, pace)
    if request.offsets:
        offsets = deque(request.offsets)
        request.offsets.clear()
        answers = one_by_one(chunks(offsets, CHUNK), lambda some: _commit(request, some, context), pace)
        taken.extend([codes async for codes in answers])
    for part in _parts(request, chain.from_iterable(emptied(taken)), call):
        await packed.add(part)
    return packed.reply(call)


async def _refuse_beyond_ends(request: CommitRequest, context: BrokerContext, pace: Pace) -> None:
    """Refuse offsets beyond the end of their log.

    The other offsets get the leader epoch of the comparison, unless the client has sent one. If the log is truncated
    later, the epoch shows where.
    """
    ends: dict[tuple[str, int], End] = {}
    topics = context.image.topics
    for some in chunks(deque(request.offsets), CHUNK):
        asked = {}
        for each in some:
            topic = topics.get(each.topic)
            if topic is not None and topic.id == each.topic_id and each.partition in topic.partitions:
                asked[each.topic, each.partition] = topic.partitions[each.partition].leader_epoch
        ends.update(await context.groups.ends.of(asked))
        await pace.next_slice()
    offsets, request.offsets[:] = deque(request.offsets), []
    for problems in [topic.problems for topic in request.topics]:
        for begin in range(0, len(problems), ITEMS):
            _compare(problems, range(begin, min(begin + ITEMS, len(problems))), offsets, ends, request)
            await pace.item(ITEMS)
        await pace.item()


def _compare(
    problems: list[ErrorCode],
    numbers: Iterable[int],
    offsets: deque[OffsetToCommit],
    ends: Mapping[tuple[str, int], End],
    request: CommitRequest,
) -> None:
    """Move the offsets of these partitions of a topic to the request, except those beyond an end."""
    for number in numbers:
        if problems[number]:
            continue
        each = offsets.popleft()
        end = ends.get((each.topic, each.partition))
        if end is not None and each.offset > end.offset:
            problems[number] = ErrorCode.OFFSET_OUT_OF_RANGE
            continue
        if end is not None and each.leader_epoch < 0:
            each = each._replace(leader_epoch=end.leader_epoch)
        request.offsets.append(each)


def _read_head(reader: RequestReader, version: int) -> CommitRequest:
    """Read the request without its topics."""
    group_id = reader.string()
    (generation,) = reader.fixed(_INT32)
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_SINCE else None
    (retention_ms,) = reader.fixed(_INT64) if version in _RETENTION else (-1,)
    return CommitRequest(group_id, Committer(member_id, generation, instance_id, version), retention_ms, deque(), [])


def _topics_of(reader: RequestReader, call: Call, image: MetadataImage, request: CommitRequest) -> Iterator[int]:
    version = call.version
    return read_topics(reader, call, image, request, by_id=version >= _BY_ID_SINCE, has_epochs=version >= _EPOCH_SINCE)


async def _commit(
    request: CommitRequest, offsets: Sequence[OffsetToCommit], context: BrokerContext
) -> Sequence[ErrorCode]:
    """Commit a chunk of offsets. Returns the error code of each partition."""
    try:
        return await context.groups.submit(request.group_id, _decision(request, offsets))
    except KafkaError as error:
        return all_refused(offsets, error)


def _decision(request: CommitRequest, offsets: Sequence[OffsetToCommit]) -> GroupDecision[Sequence[ErrorCode]]:
    return lambda state, environment: commit(
        state,
        environment,
        partial(keep_session, environment),
        request.committer,
        request.group_id,
        offsets,
        request.retention_ms,
    )


def _packed(request: CommitRequest, taken: Iterable[ErrorCode], call: Call) -> Reply:
    return call.packed(b"".join(_parts(request, taken, call)))


def _parts(request: CommitRequest, taken: Iterable[ErrorCode], call: Call) -> Iterator[bytes]:
    return answer_parts(request, taken, call, has_throttle=call.version >= _THROTTLE_SINCE)


API = ApiSpec(OFFSET_COMMIT, "OffsetCommit", (2, 10), handle, reads="frame")
