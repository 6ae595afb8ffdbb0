"""OffsetForLeaderEpoch (23), versions 2 to 4: the end offset of a leader epoch in the leader's log.

Followers truncate their logs to it (KIP-101, KIP-279). Consumers use it to detect that records they have read were
truncated (KIP-320). Both may get an end offset above the high watermark, because a new leader's high watermark may be
behind the records that a consumer has correctly read. For a compacted log, a follower gets the end of the last batch
(decision 32).
"""

from broker_runtime.apis.fetch.list_offsets import check_epoch
from broker_runtime.apis.request.access import Access
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import OffsetForLeaderEpochRequest, OffsetForLeaderPartition
from broker_runtime.wire.versions import OFFSET_FOR_LEADER_EPOCH

UNKNOWN = -1
_REPLICA_ID_SINCE = 3
"""Sluicegate's followers use no older version."""


def handle(request: OffsetForLeaderEpochRequest, call: Call, context: BrokerContext) -> Steps[Fields]:
    follows = call.version >= _REPLICA_ID_SINCE and request.replica_id >= 0
    access = call.access
    if access is not None and access.cluster(hides=True):
        access = None
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            # For a compacted log this reads an index and some KB of headers: tens of microseconds, at most 0.2 ms.
            partitions.append(_partition(topic.topic, part, follows, context, access))
            yield
        topics.append({"topic": topic.topic, "partitions": partitions})
        yield
    return {"topics": topics}


def _partition(
    topic: str, part: OffsetForLeaderPartition, follows: bool, context: BrokerContext, access: Access | None
) -> Fields:
    code, epoch, end = ErrorCode.NONE, UNKNOWN, UNKNOWN
    try:
        if access is not None:
            access.require_topic(topic)
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
