"""OffsetDelete (47), version 0 (KIP-496): committed offsets of topics that no member of the group reads."""

from typing import Any

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.offsets.delete import delete
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.versions import OFFSET_DELETE


async def handle(request: Any, call: Call, context: BrokerContext) -> Fields:
    """`request` is kio's entity."""
    group_id, topics = request.group_id, context.image.topics

    def exists(name: str, index: int) -> bool:
        return name in topics and index in topics[name].partitions

    asked = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    known = [each for each in asked if exists(*each)]
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group has a name")
        told = await context.groups.submit(group_id, lambda state, _: delete(state, group_id, known))
    except KafkaError as error:
        return {"error_code": error.code, "topics": []}
    codes = dict(zip(known, told, strict=True))
    shown = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": part.partition_index,
                    "error_code": codes.get((topic.name, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                }
                for part in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return {"error_code": ErrorCode.NONE, "topics": shown}


API = ApiSpec(OFFSET_DELETE, "OffsetDelete", (0, 0), handle)
