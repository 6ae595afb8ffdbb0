"""AlterReplicaLogDirs (34), versions 1 to 2 (KIP-113): there is only one folder, so no replica moves."""

from pathlib import Path

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AlterReplicaLogDirsRequest
from broker_runtime.wire.versions import ALTER_REPLICA_LOG_DIRS


def handle(request: AlterReplicaLogDirsRequest, call: Call, context: BrokerContext) -> Steps[Fields]:
    results = []
    access = call.access
    is_denied = access is not None and not access.cluster()
    mine = Path(context.settings.log_dir).absolute()
    for folder in request.dirs:
        is_mine = Path(folder.path).absolute() == mine
        for topic in folder.topics:
            partitions = []
            for index in topic.partitions:
                code = _moved(topic.name, index, context) if is_mine else ErrorCode.LOG_DIR_NOT_FOUND
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if is_denied else code
                partitions.append({"partition_index": index, "error_code": code})
                yield
            results.append({"topic_name": topic.name, "partitions": partitions})
            yield
        yield
    return {"results": results}


def _moved(topic: str, index: int, context: BrokerContext) -> ErrorCode:
    if context.logs.get(topic, index) is not None:
        return ErrorCode.NONE
    known = context.image.topics.get(topic)
    if known is None or index not in known.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.REPLICA_NOT_AVAILABLE


API = ApiSpec(key=ALTER_REPLICA_LOG_DIRS, name="AlterReplicaLogDirs", versions=(1, 2), handle=handle)
