"""OffsetFetch (9), OffsetCommit (8) and JoinGroup (11) of a broker without consumer groups: answers that end waits.

Clients retry what FindCoordinator refuses for as long as they run, librdkafka even what it calls final. So every broker
says that it is the coordinator, and then the truth: nobody has committed an offset, so consumers of assigned partitions
begin where auto.offset.reset says; and nobody may commit one or join, which all clients take for final.
"""

from collections.abc import Iterable
from typing import cast

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import (
    JoinGroupRequest,
    OffsetCommitRequestV9,
    OffsetFetchRequestV7,
    OffsetFetchRequestV9,
    OffsetFetchTopic,
)
from broker_runtime.wire.versions import JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH

NOT_SERVED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def fetch_offsets(request: OffsetFetchRequestV9, call: Call, context: BrokerContext) -> Fields:
    """From version 8 on a request may ask for several groups."""
    if call.version < 8:
        return {"error_code": ErrorCode.NONE, "topics": _without_offsets(cast("OffsetFetchRequestV7", request).topics)}
    groups = [
        {"group_id": group.group_id, "topics": _without_offsets(group.topics), "error_code": ErrorCode.NONE}
        for group in request.groups
    ]
    return {"groups": groups}


def _without_offsets(topics: Iterable[OffsetFetchTopic] | None) -> list[Fields]:
    """None asks for all topics that have offsets."""
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": -1,
                    "committed_leader_epoch": -1,
                    "metadata": "",
                    "error_code": ErrorCode.NONE,
                }
                for index in topic.partition_indexes
            ],
        }
        for topic in topics or ()
    ]


def commit_offsets(request: OffsetCommitRequestV9, call: Call, context: BrokerContext) -> Fields:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": part.partition_index, "error_code": NOT_SERVED} for part in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return {"topics": topics}


def join_group(request: JoinGroupRequest, call: Call, context: BrokerContext) -> Fields:
    return {
        "error_code": NOT_SERVED,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "skip_assignment": False,
        "member_id": request.member_id,
        "members": [],
    }


OFFSET_FETCH_API = ApiSpec(OFFSET_FETCH, "OffsetFetch", (1, 9), fetch_offsets)
OFFSET_COMMIT_API = ApiSpec(OFFSET_COMMIT, "OffsetCommit", (2, 9), commit_offsets)
JOIN_GROUP_API = ApiSpec(JOIN_GROUP, "JoinGroup", (0, 9), join_group)
