"""OffsetCommit (8), versions 2 to 10 (KIP-848 from version 9, topic ids from version 10).

- What does not exist is refused by itself: a topic, an id, a partition.
- A retention of its own, which versions 2 to 4 may ask for, is kept.
- Everything else is `groups.offsets`' to decide; a committer that is refused is refused for all of its partitions.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ZERO_UUID, ApiSpec, BrokerContext
from broker_runtime.apis.topics_by_name_or_id import WantedTopic, wanted_topic
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.heartbeats import keep_session
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit
from broker_runtime.groups.offsets.delete import SLICE
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import OFFSET_COMMIT
from broker_runtime.wire.writer import array_length, string

_THROTTLE_SINCE = 3
_EPOCH_SINCE = 6
_INSTANCE_SINCE = 7
_BY_ID_SINCE = 10
_RETENTION = range(2, 5)
_INT32, _PARTITION = Struct(">i"), Struct(">ih")


async def handle(request: Any, call: Call, context: BrokerContext) -> Reply:
    """`request` is kio's entity of whichever version. What exists is looked at once: it may change meanwhile."""
    version, image = call.version, context.image
    wanted = [wanted_topic(each, each.partitions, image, by_id=version >= _BY_ID_SINCE) for each in request.topics]
    codes = [[_problem(topic, part) for part in topic.partitions] for topic in wanted]
    offsets = [
        _offset(topic, part, version)
        for topic, problems in zip(wanted, codes, strict=True)
        for part, problem in zip(topic.partitions, problems, strict=True)
        if problem == ErrorCode.NONE
    ]
    if offsets:
        taken = iter(await _commit(request, offsets, version, context))
        codes = [[problem or next(taken) for problem in problems] for problems in codes]
    call.error = next((code for of_topic in codes for code in of_topic if code), 0)
    return call.packed(_packed(wanted, codes, call))


def _problem(topic: WantedTopic[Any], part: Any) -> ErrorCode:
    if topic.known is None:
        return topic.problem
    return ErrorCode.NONE if part.partition_index in topic.known.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _packed(wanted: Sequence[WantedTopic[Any]], codes: Sequence[Sequence[ErrorCode]], call: Call) -> bytes:
    """By hand: consumers commit again and again."""
    version, flexible = call.version, call.flexible
    end = b"\x00" if flexible else b""
    parts = [_INT32.pack(call.throttle_ms)] if version >= _THROTTLE_SINCE else []
    parts.append(array_length(len(wanted), flexible))
    for topic, of_topic in zip(wanted, codes, strict=True):
        if version >= _BY_ID_SINCE:
            parts.append((topic.topic_id or ZERO_UUID).bytes)
        else:
            parts.append(string(topic.name or "", flexible))
        parts.append(array_length(len(of_topic), flexible))
        for part, code in zip(topic.partitions, of_topic, strict=True):
            parts += (_PARTITION.pack(part.partition_index, code), end)
        parts.append(end)
    parts.append(end)
    return b"".join(parts)


async def _commit(
    request: Any, offsets: Sequence[OffsetToCommit], version: int, context: BrokerContext
) -> Sequence[ErrorCode]:
    committer = Committer(
        request.member_id,
        request.generation_id_or_member_epoch,
        request.group_instance_id if version >= _INSTANCE_SINCE else None,
        version,
    )
    retention_ms = round(request.retention_time.total_seconds() * 1000) if version in _RETENTION else -1
    if len(offsets) <= SLICE:
        return await _commit_some(request.group_id, committer, offsets, retention_ms, context)
    answers = await asyncio.gather(
        *(
            _commit_some(request.group_id, committer, offsets[at : at + SLICE], retention_ms, context)
            for at in range(0, len(offsets), SLICE)
        )
    )
    return [code for answer in answers for code in answer]


async def _commit_some(
    group_id: str, committer: Committer, offsets: Sequence[OffsetToCommit], retention_ms: int, context: BrokerContext
) -> Sequence[ErrorCode]:
    """So many that others have their turn before the next ones; each partition has an error of its own."""
    try:
        return await context.groups.submit(
            group_id,
            lambda state, environment: commit(
                state,
                environment,
                partial(keep_session, environment),
                committer,
                group_id,
                offsets,
                retention_ms,
            ),
        )
    except KafkaError as error:
        return [error.code] * len(offsets)


def _offset(topic: WantedTopic[Any], part: Any, version: int) -> OffsetToCommit:
    assert topic.known is not None
    return OffsetToCommit(
        topic.known.name,
        part.partition_index,
        part.committed_offset,
        part.committed_leader_epoch if version >= _EPOCH_SINCE else -1,
        part.committed_metadata,
        topic.known.id,
    )


API = ApiSpec(OFFSET_COMMIT, "OffsetCommit", (2, 10), handle)
