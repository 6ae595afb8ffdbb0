"""ListOffsets (2), versions 1 to 8: earliest, latest, by time, and the offset of the largest timestamp (KIP-734).

Version 8's earliest local offset (-4) equals the earliest one: there is no tiered storage.
"""

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.log import Log
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import LIST_OFFSETS

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
UNKNOWN = -1


def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    return {
        "topics": [
            {"name": topic.name, "partitions": [_partition(topic.name, part, node) for part in topic.partitions]}
            for topic in request.topics
        ]
    }


def _partition(topic: str, part: Entity, node: Node) -> Fields:
    code, offset, timestamp, epoch = ErrorCode.NONE, UNKNOWN, UNKNOWN, UNKNOWN
    try:
        log, epoch = node.led_log(topic, part.partition_index)
        offset, timestamp = _look_up(log, int(part.timestamp))
    except KafkaError as error:
        code, epoch = error.code, UNKNOWN
    return {
        "partition_index": part.partition_index,
        "error_code": code,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": epoch if offset >= 0 else UNKNOWN,
    }


def _look_up(log: Log, timestamp: int) -> tuple[int, int]:
    if timestamp == LATEST:
        return log.high_watermark, UNKNOWN
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, UNKNOWN
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    elif timestamp < 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{timestamp} has no meaning here")
    else:
        found = log.offset_for_timestamp(timestamp)
    return (UNKNOWN, UNKNOWN) if found is None else (found[0], found[1])


API = ApiSpec(key=LIST_OFFSETS, name="ListOffsets", versions=(1, 8), handle=handle)
