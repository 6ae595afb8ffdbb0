"""ConsumerGroupHeartbeat (68), versions 0 and 1 (KIP-848): a member of a group is there, comes, changes or goes.

From version 1 on a member brings its own id, and may subscribe by a regular expression.
"""

from typing import Any
from uuid import UUID

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ZERO_UUID, ApiSpec, BrokerContext
from broker_runtime.config.groups import CONSUMER
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.heartbeat import heartbeat
from broker_runtime.groups.consumer.validity import HeartbeatRequest
from broker_runtime.groups.records import Assignment
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import CONSUMER_GROUP_HEARTBEAT

_MS = 1000
_REGEX_SINCE = 1


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of either version."""
    if CONSUMER not in context.settings.config.group_coordinator_rebalance_protocols:
        return _fields(ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer")
    asked = _asked(request, call)
    try:
        answer = await context.groups.submit(
            asked.group_id, lambda state, environment: heartbeat(state, environment, asked)
        )
    except KafkaError as error:
        return _fields(error.code, error.message)
    given = answer.assignment
    assignment = None
    if given is not None:
        topics = [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in given.items()]
        assignment = {"topic_partitions": topics}
    return {
        **_fields(ErrorCode.NONE, None),
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
        "assignment": assignment,
    }


def _fields(code: ErrorCode, message: str | None) -> Fields:
    return {
        "error_code": code,
        "error_message": message,
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": 0,
        "assignment": None,
    }


def _asked(request: Any, call: Call) -> HeartbeatRequest:
    names = request.subscribed_topic_names
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=round(request.rebalance_timeout.total_seconds() * _MS),
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=request.subscribed_topic_regex if call.version >= _REGEX_SINCE else None,
        server_assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _owned(request.topic_partitions),
        client_id=call.client_id or "",
        client_host=f"/{call.connection.peer[0]}",
        api_version=call.version,
    )


def _owned(topics: Any) -> Assignment:
    """A topic that is named twice owns the partitions of both; the id of no topic is kio's None."""
    owned: dict[UUID, list[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id or ZERO_UUID, []).extend(topic.partitions)
    return {topic_id: tuple(partitions) for topic_id, partitions in owned.items()}


API = ApiSpec(key=CONSUMER_GROUP_HEARTBEAT, name="ConsumerGroupHeartbeat", versions=(0, 1), handle=handle)
