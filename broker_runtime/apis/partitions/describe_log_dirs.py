"""DescribeLogDirs (35), versions 1 to 5 (KIP-113, KIP-827, KIP-1066): the sizes of the logs in this broker's folder.

Sizes are in bytes. Kafka's reassignment tool uses this API. There is only one folder, so no replica moves between
folders. The size of the volume is always -1, which means "not known" in the protocol.
"""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.slicing.steps import Steps, listed
from broker_runtime.storage.log.log import Log
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeLogDirsRequest
from broker_runtime.wire.versions import DESCRIBE_LOG_DIRS

_NOT_KNOWN = -1


def handle(request: DescribeLogDirsRequest, call: Call, context: BrokerContext) -> Steps[Fields]:
    access = call.access
    if access is not None and not access.cluster():
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "results": []}
    topics: dict[str, list[Fields]] = {}
    for log in (yield from _wanted(request, context)):
        yield
        if log.topic != METADATA_TOPIC:
            topics.setdefault(log.topic, []).append(
                {
                    "partition_index": log.partition,
                    "partition_size": log.size,
                    "offset_lag": max(0, log.high_watermark - log.log_end_offset),
                    "is_future_key": False,
                }
            )
    folder = {
        "error_code": ErrorCode.NONE,
        "log_dir": context.settings.log_dir,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": _NOT_KNOWN,
        "usable_bytes": _NOT_KNOWN,
        "is_cordoned": False,
    }
    return {"error_code": ErrorCode.NONE, "results": [folder]}


def _wanted(request: DescribeLogDirsRequest, context: BrokerContext) -> Steps[list[Log]]:
    if request.topics is None:
        return (yield from listed(context.logs.logs()))
    found: dict[tuple[str, int], Log] = {}
    for topic in request.topics:
        for index in topic.partitions:
            log = context.logs.get(topic.topic, index)
            if log is not None:
                found[topic.topic, index] = log
            yield
        yield
    return list(found.values())


API = ApiSpec(key=DESCRIBE_LOG_DIRS, name="DescribeLogDirs", versions=(1, 5), handle=handle)
