"""ListOffsets (2), versions 1 to 8: earliest, latest, by time, and the offset of the largest timestamp (KIP-734).

Version 8's earliest local offset (-4) equals the earliest one: there is no tiered storage. A partition that is named
more than once is refused, as in Kafka: looking up a time reads the disk. A leader that was just elected does not know
the high watermark until its followers have fetched (KIP-207); followers are told the log's end instead.
"""

from collections import Counter

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.log import Log
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import LIST_OFFSETS

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
_SINCE_VERSION = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}
UNKNOWN = -1


def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    named = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    follower = request.replica_id >= 0
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _partition(topic.name, part, named[topic.name, part.partition_index] > 1, follower, ctx, node)
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _partition(topic: str, part: Entity, repeated: bool, follower: bool, ctx: RequestContext, node: Node) -> Fields:
    code, offset, timestamp, epoch = ErrorCode.NONE, UNKNOWN, UNKNOWN, UNKNOWN
    try:
        if repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition may be named once")
        leader = node.led(topic, part.partition_index)
        epoch = leader.leader_epoch
        check_epoch(getattr(part, "current_leader_epoch", UNKNOWN), epoch)
        if part.timestamp != EARLIEST and not follower and leader.log.high_watermark < leader.start_offset:
            code = ErrorCode.OFFSET_NOT_AVAILABLE if ctx.version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
            raise KafkaError(code, "the new leader does not know yet how far its records are replicated")
        offset, timestamp = _look_up(leader.log, part.timestamp, ctx.version)
        if follower and part.timestamp == LATEST:
            offset = leader.log.log_end_offset
    except KafkaError as error:
        code, epoch = error.code, UNKNOWN
    return {
        "partition_index": part.partition_index,
        "error_code": code,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": epoch if offset >= 0 else UNKNOWN,
    }


def check_epoch(known: int, current: int) -> None:
    """KIP-320: a client with an older or newer view of the leader must look again."""
    if known >= 0 and known != current:
        code = ErrorCode.FENCED_LEADER_EPOCH if known < current else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"the leader epoch is {current}")


def _look_up(log: Log, timestamp: int, version: int) -> tuple[int, int]:
    if timestamp < 0 and version < _SINCE_VERSION.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{timestamp} has no meaning in version {version}")
    if timestamp == LATEST:
        return log.high_watermark, UNKNOWN
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, UNKNOWN
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return (UNKNOWN, UNKNOWN) if found is None else (found[0], found[1])


API = ApiSpec(key=LIST_OFFSETS, name="ListOffsets", versions=(1, 8), handle=handle)
