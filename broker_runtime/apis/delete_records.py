"""DeleteRecords (21), versions 0 to 2 (KIP-107): moves the log start offset; -1 means up to the high watermark."""

from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import DELETE_RECORDS

_HIGH_WATERMARK = -1
_INVALID_LOW_WATERMARK = -1


def handle(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    return {
        "topics": [
            {"name": topic.name, "partitions": [_partition(topic.name, part, node) for part in topic.partitions]}
            for topic in request.topics
        ]
    }


def _partition(topic: str, part: Entity, node: Node) -> Fields:
    code, low_watermark = ErrorCode.NONE, _INVALID_LOW_WATERMARK
    try:
        log, _ = node.led_log(topic, part.partition_index)
        if "delete" not in log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted only; records cannot be deleted")
        before = log.high_watermark if part.offset == _HIGH_WATERMARK else part.offset
        low_watermark = log.delete_records(before)
    except KafkaError as error:
        code = error.code
    return {"partition_index": part.partition_index, "low_watermark": low_watermark, "error_code": code}


API = ApiSpec(key=DELETE_RECORDS, name="DeleteRecords", versions=(0, 2), handle=handle)
