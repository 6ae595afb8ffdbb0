"""OffsetFetch (9), versions 1 to 10 (several groups from version 8, members' epochs from 9, topic ids from 10).

Each group stands for itself. Version 1 has no place for a group's error: it stands with each partition. There are no
transactions, so every offset is stable.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.apis.groups_in_turn import in_turn
from broker_runtime.apis.topics_by_name_or_id import WantedTopic, wanted_topic
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.fetch import FetchedOffset, FetchedTopics, fetch
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import OFFSET_FETCH

_GROUP_ERROR_SINCE = 2
_SEVERAL_SINCE = 8
_MEMBER_SINCE = 9
_BY_ID_SINCE = 10


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of whichever version."""
    if call.version < _SEVERAL_SINCE:
        return await _group(request, call.version, context)
    return {"groups": await in_turn(request.groups, lambda group: _group(group, call.version, context))}


async def _group(asked: Any, version: int, context: BrokerContext) -> Fields:
    group_id, member = asked.group_id, Committer(api_version=version)
    if version >= _MEMBER_SINCE:
        member = Committer(asked.member_id or "", asked.member_epoch, api_version=version)
    wanted = None
    if asked.topics is not None:
        wanted = [
            wanted_topic(topic, topic.partition_indexes, context.image, by_id=version >= _BY_ID_SINCE)
            for topic in asked.topics
        ]
    topics = None if wanted is None else [(each.name, each.partitions) for each in wanted if each.name is not None]
    ids = {each.name: each.topic_id for each in wanted or () if each.name is not None and each.topic_id is not None}
    try:
        found = await context.groups.submit(
            group_id, lambda state, _: ((), fetch(state, member, group_id, topics, ids))
        )
    except KafkaError as error:
        refused = [] if version >= _GROUP_ERROR_SINCE else [_all_refused(each, error.code) for each in wanted or ()]
        return {"group_id": group_id, "topics": refused, "error_code": error.code}
    shown = _all(found, version, context) if wanted is None else _in_order(wanted, found)
    return {"group_id": group_id, "topics": shown, "error_code": ErrorCode.NONE}


def _in_order(wanted: Sequence[WantedTopic[int]], found: FetchedTopics) -> list[Fields]:
    """An id that nobody knows stands among the others with its error."""
    offsets = iter(found)
    return [
        _all_refused(each, each.problem)
        if each.name is None
        else each.answer([_partition(offset, ErrorCode.NONE) for offset in next(offsets)[1]])
        for each in wanted
    ]


def _all(found: FetchedTopics, version: int, context: BrokerContext) -> list[Fields]:
    """From version 10 on without topics that are gone: there is no id to call them by."""
    shown: list[Fields] = []
    for name, offsets in found:
        topic_id = _topic_id(name, context)
        if version < _BY_ID_SINCE or topic_id is not None:
            partitions = [_partition(offset, ErrorCode.NONE) for offset in offsets]
            shown.append({"name": name, "topic_id": topic_id, "partitions": partitions})
    return shown


def _topic_id(name: str, context: BrokerContext) -> UUID | None:
    known = context.image.topics.get(name)
    return None if known is None else known.id


def _all_refused(topic: WantedTopic[int], code: ErrorCode) -> Fields:
    return topic.answer([_partition(FetchedOffset(index), code) for index in topic.partitions])


def _partition(found: FetchedOffset, code: ErrorCode) -> Fields:
    return {
        "partition_index": found.partition,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": code,
    }


API = ApiSpec(OFFSET_FETCH, "OffsetFetch", (1, 10), handle)
