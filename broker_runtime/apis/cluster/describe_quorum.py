"""DescribeQuorum (55), versions 0 to 2 (KIP-595, KIP-836, KIP-853): the metadata log's replicas and their offsets.

There is no quorum of controllers: a disk or the API server stores the journal, and copies on standby controllers do not
count. So the active controller is the only voter, and every broker with a session is an observer.
"""

from typing import Any

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ZERO_UUID, ApiSpec, ControllerContext
from broker_runtime.controller.service import ControllerService
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import DescribeQuorumRequest
from broker_runtime.wire.versions import DESCRIBE_QUORUM

_UNKNOWN = -1


def handle(request: DescribeQuorumRequest, call: Call, context: ControllerContext) -> Steps[Fields]:
    controller = context.controller
    if not controller.active:
        return _answer(ErrorCode.NOT_CONTROLLER, [], [])
    topics = []
    known = _metadata_partition(controller, context)
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            is_known = topic.topic_name == METADATA_TOPIC and asked.partition_index == 0
            partitions.append(known if is_known else _unknown(asked.partition_index))
            yield
        topics.append({"topic_name": topic.topic_name, "partitions": partitions})
        yield
    return _answer(ErrorCode.NONE, topics, [{"node_id": context.settings.node_id, "listeners": _listeners(context)}])


def _answer(code: ErrorCode, topics: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> Fields:
    return {"error_code": code, "error_message": None, "topics": topics, "nodes": nodes}


def _unknown(index: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "error_message": None,
        "leader_id": _UNKNOWN,
        "leader_epoch": _UNKNOWN,
        "high_watermark": _UNKNOWN,
        "current_voters": [],
        "observers": [],
    }


def _metadata_partition(controller: ControllerService, context: ControllerContext) -> dict[str, Any]:
    end = controller.committed_end_offset
    return _unknown(0) | {
        "error_code": ErrorCode.NONE,
        "leader_id": context.settings.node_id,
        "leader_epoch": controller.image.cluster.controller_epoch,
        "high_watermark": end,
        "current_voters": [_replica(context.settings.node_id, end, _UNKNOWN, context.clock.wall_ms())],
        "observers": _observers(controller, end, context),
    }


def _observers(controller: ControllerService, end: int, context: ControllerContext) -> list[dict[str, Any]]:
    """Return the brokers with a session, as of their last heartbeats."""
    now_s, now_ms = context.clock.monotonic(), context.clock.wall_ms()
    found = []
    for broker_id, broker in sorted(controller.image.brokers.items()):
        age_s = controller.sessions.age(broker_id, now_s)
        if age_s is not None:
            heard_ms = now_ms - int(age_s * 1000)
            next_offset = controller.sessions.metadata_offset(broker_id, broker.epoch) + 1
            found.append(_replica(broker_id, next_offset, heard_ms, heard_ms if next_offset >= end else _UNKNOWN))
    return found


def _replica(replica_id: int, end_offset: int, fetched_ms: int, caught_up_ms: int) -> dict[str, Any]:
    return {
        "replica_id": replica_id,
        "replica_directory_id": ZERO_UUID,
        "log_end_offset": end_offset,
        "last_fetch_timestamp": fetched_ms,
        "last_caught_up_timestamp": caught_up_ms,
    }


def _listeners(context: ControllerContext) -> list[dict[str, Any]]:
    return [
        {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
        for endpoint in context.settings.listeners
        if endpoint.listener in context.settings.controller_listeners
    ]


API = ApiSpec(key=DESCRIBE_QUORUM, name="DescribeQuorum", versions=(0, 2), handle=handle)
