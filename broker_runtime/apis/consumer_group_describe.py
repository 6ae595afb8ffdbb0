"""ConsumerGroupDescribe (69), versions 0 and 1 (KIP-848; version 1 says which protocol a member speaks, KIP-1099).

Authorized operations are not told: there is no authorizer.
"""

from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.describe import DescribedGroup, DescribedMember, TopicPartitions, describe
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import CONSUMER_GROUP_DESCRIBE

_CLASSIC, _CONSUMER = 0, 1
_UNKNOWN_OPERATIONS = -(2**31)


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity of either version."""
    return {"groups": [await _described(group_id, context) for group_id in request.group_ids]}


async def _described(group_id: str, context: BrokerContext) -> Fields:
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = await context.groups.submit(
            group_id, lambda state, environment: ((), describe(state, environment, group_id))
        )
    except KafkaError as error:
        group = DescribedGroup(group_id, "", 0, 0, "", ())
        return _group(group, error.code, error.message)
    return _group(group, ErrorCode.NONE, None)


def _group(group: DescribedGroup, code: ErrorCode, message: str | None) -> Fields:
    return {
        "error_code": code,
        "error_message": message,
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor,
        "members": [_member(each) for each in group.members],
        "authorized_operations": _UNKNOWN_OPERATIONS,
    }


def _member(described: DescribedMember) -> Fields:
    member, metadata = described.member, described.member.metadata
    return {
        "member_id": member.member_id,
        "instance_id": metadata.instance_id,
        "rack_id": metadata.rack_id,
        "member_epoch": member.epoch,
        "client_id": metadata.client_id,
        "client_host": metadata.client_host,
        "subscribed_topic_names": metadata.subscribed_topic_names,
        "subscribed_topic_regex": metadata.subscribed_topic_regex or "",
        "assignment": _assignment(described.assignment),
        "target_assignment": _assignment(described.target_assignment),
        "member_type": _CLASSIC if member.speaks_classic else _CONSUMER,
    }


def _assignment(topics: tuple[TopicPartitions, ...]) -> Fields:
    return {"topic_partitions": [topic._asdict() for topic in topics]}


API = ApiSpec(key=CONSUMER_GROUP_DESCRIBE, name="ConsumerGroupDescribe", versions=(0, 1), handle=handle)
