"""ConsumerGroupDescribe (69), versions 0 and 1 (KIP-848; version 1 says which protocol a member speaks, KIP-1099).

Packed by hand and over many turns: a group may have thousands of members. Topics that are gone are left out, and
authorized operations are not told: there is no authorizer.
"""

import asyncio
from struct import Struct
from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.describe import DescribedGroup, describe, held
from broker_runtime.groups.consumer.member import NOTHING, ConsumerMember
from broker_runtime.groups.records import Assignment
from broker_runtime.metadata.topics import Topics
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import CONSUMER_GROUP_DESCRIBE
from broker_runtime.wire.writer import array_length, nullable_string, string

_CLASSIC, _CONSUMER = b"\x00", b"\x01"
_MEMBER_TYPE_SINCE = 1
_MEMBERS_OF_A_TURN = 64
_END = b"\x00"
"""No tagged fields: both versions are flexible."""
_INT16, _INT32, _EPOCHS = Struct(">h"), Struct(">i"), Struct(">ii")
_UNKNOWN_OPERATIONS = _INT32.pack(-(2**31))


async def handle(request: Any, call: Call, context: BrokerContext) -> Reply:
    """`request` is kio's entity of either version."""
    parts = [_INT32.pack(call.throttle_ms), array_length(len(request.group_ids), flexible=True)]
    for group_id in request.group_ids:
        parts += await _described(group_id, call, context)
    parts.append(_END)
    return call.packed(b"".join(parts))


async def _described(group_id: str, call: Call, context: BrokerContext) -> list[bytes]:
    code, message = ErrorCode.NONE, None
    group = DescribedGroup(group_id, "", 0, 0, "", (), {})
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = await context.groups.submit(
            group_id, lambda state, environment: ((), describe(state, environment, group_id))
        )
    except KafkaError as error:
        call.error = code = error.code
        message = error.message
    parts = [_INT16.pack(code), nullable_string(message, flexible=True), string(group_id, flexible=True)]
    parts += (string(group.state, flexible=True), _EPOCHS.pack(group.epoch, group.assignment_epoch))
    parts += (string(group.assignor, flexible=True), array_length(len(group.members), flexible=True))
    for number, member in enumerate(group.members, 1):
        target = group.target.get(member.member_id, NOTHING)
        parts.append(_member(member, target, call.version, context.image.topics))
        if number % _MEMBERS_OF_A_TURN == 0:
            await asyncio.sleep(0)
    return [*parts, _UNKNOWN_OPERATIONS, _END]


def _member(member: ConsumerMember, target: Assignment, version: int, topics: Topics) -> bytes:
    metadata = member.metadata
    parts = [string(member.member_id, flexible=True), nullable_string(metadata.instance_id, flexible=True)]
    parts += (nullable_string(metadata.rack_id, flexible=True), _INT32.pack(member.epoch))
    parts += (string(metadata.client_id, flexible=True), string(metadata.client_host, flexible=True))
    parts.append(array_length(len(metadata.subscribed_topic_names), flexible=True))
    parts += [string(name, flexible=True) for name in metadata.subscribed_topic_names]
    parts.append(string(metadata.subscribed_topic_regex or "", flexible=True))
    parts += (_assignment(held(member), topics), _assignment(target, topics))
    if version >= _MEMBER_TYPE_SINCE:
        parts.append(_CLASSIC if member.speaks_classic else _CONSUMER)
    parts.append(_END)
    return b"".join(parts)


def _assignment(assignment: Assignment, topics: Topics) -> bytes:
    parts = []
    for topic_id, partitions in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            count = array_length(len(partitions), flexible=True)
            indexes = Struct(f">{len(partitions)}i").pack(*partitions)
            parts.append(topic_id.bytes + string(topic.name, flexible=True) + count + indexes + _END)
    return b"".join((array_length(len(parts), flexible=True), *parts, _END))


API = ApiSpec(key=CONSUMER_GROUP_DESCRIBE, name="ConsumerGroupDescribe", versions=(0, 1), handle=handle)
