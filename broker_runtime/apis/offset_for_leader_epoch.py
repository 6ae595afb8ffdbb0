"""OffsetForLeaderEpoch (23), versions 2 to 4: where a leader epoch ends in the leader's log.

Followers cut their logs by it (KIP-101, KIP-279); consumers find out by it that records they have read are gone
(KIP-320). Both are told what lies above the high watermark, too: a new leader's may be behind what a consumer has read
rightly. Of a log that was cleaned a follower is told where the last batch ends (decision 32).
"""

import asyncio
from collections.abc import Awaitable

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.apis.list_offsets import check_epoch
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from broker_runtime.wire.versions import OFFSET_FOR_LEADER_EPOCH

UNKNOWN = -1
_REPLICA_ID_SINCE = 3
"""Followers of this project ask no older version."""
_PARTITIONS_PER_TURN = 10
"""Of a cleaned log an index and some KB of headers are read: some tens of microseconds, 0.2 ms at worst."""


def handle(request: OffsetForLeaderEpochRequest, call: Call, context: BrokerContext) -> Fields | Awaitable[Fields]:
    follows = call.version >= _REPLICA_ID_SINCE and request.replica_id >= 0
    if follows and sum(len(topic.partitions) for topic in request.topics) > _PARTITIONS_PER_TURN:
        return _over_turns(request, context)
    topics = [
        {
            "topic": topic.topic,
            "partitions": [_partition(topic.topic, part, follows, context) for part in topic.partitions],
        }
        for topic in request.topics
    ]
    return {"topics": topics}


async def _over_turns(request: OffsetForLeaderEpochRequest, context: BrokerContext) -> Fields:
    topics: list[Fields] = []
    answered = 0
    for topic in request.topics:
        parts: list[Fields] = []
        for part in topic.partitions:
            parts.append(_partition(topic.topic, part, True, context))
            answered += 1
            if answered % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        topics.append({"topic": topic.topic, "partitions": parts})
    return {"topics": topics}


def _partition(topic: str, part: OffsetForLeaderPartition, follows: bool, context: BrokerContext) -> Fields:
    code, epoch, end = ErrorCode.NONE, UNKNOWN, UNKNOWN
    try:
        leader = context.led(topic, part.partition)
        check_epoch(part.current_leader_epoch, leader.leader_epoch)
        if part.leader_epoch == leader.leader_epoch:
            epoch, end = leader.leader_epoch, leader.log.log_end_offset
        else:
            epoch, end = leader.log.end_offset_for_epoch(part.leader_epoch, for_replica=follows)
    except KafkaError as error:
        code = error.code
    return {"error_code": code, "partition": part.partition, "leader_epoch": epoch, "end_offset": end}


API = ApiSpec(key=OFFSET_FOR_LEADER_EPOCH, name="OffsetForLeaderEpoch", versions=(2, 4), handle=handle)
